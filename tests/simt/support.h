// What the simulator's own tests share: device arrays, and checks of findings.
#ifndef CUFLASH_TESTS_SIMT_SUPPORT_H_
#define CUFLASH_TESTS_SIMT_SUPPORT_H_

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "device/host/launch.h"
#include "simt/machine.h"

namespace cuflash::simt {

// The simulator's one finding, which must be of this kind.
inline Finding only_finding(FindingKind kind) {
  std::vector<Finding> findings = take_findings();
  EXPECT_EQ(findings.size(), 1u);
  for (std::size_t i = 1; i < findings.size(); ++i) {
    ADD_FAILURE() << "also found:\n" << findings[i].message();
  }
  if (findings.empty()) return {};
  EXPECT_EQ(static_cast<int>(findings[0].kind()), static_cast<int>(kind)) << findings[0].message();
  return findings[0];
}

inline void no_findings(const std::vector<Finding>& findings = take_findings()) {
  for (const Finding& finding : findings) ADD_FAILURE() << "found:\n" << finding.message();
}

// Every test starts with a clean simulator, and fails if the simulator has found anything that the
// test did not take: this is how each correct twin is checked.
class SimulatorTest : public ::testing::Test {
 protected:
  void SetUp() override { clean(); }
  void TearDown() override {
    no_findings();
    clean();
  }
  // A finding that ends the launch.
  template <class... Params, class... Args>
  static Finding fails(FindingKind kind, int threads, void (*kernel)(Params...), Args&&... args) {
    EXPECT_EQ(launch(kernel, {1, static_cast<unsigned>(threads)}, std::forward<Args>(args)...),
              FlashAttentionError::CUDA_ERROR);
    cudaGetLastError();
    return only_finding(kind);
  }

 private:
  static void clean() {
    take_findings();
    reset_counts();
    set_schedule({});
    report_only_block(std::nullopt);
  }
};

// An array in device memory.
template <class T>
class Array {
 public:
  explicit Array(std::size_t count, const char* name = nullptr) : count_(count) {
    EXPECT_EQ(cudaMalloc(&data_, count * sizeof(T)), cudaSuccess);
    if (name != nullptr) name_memory(data_, name);
  }
  Array(std::size_t count, T value, const char* name = nullptr) : Array(count, name) {
    set(std::vector<T>(count, value));
  }
  ~Array() { cudaFree(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  void set(const std::vector<T>& values) {
    EXPECT_EQ(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  std::vector<T> values() const {
    std::vector<T> host(count_);
    EXPECT_EQ(cudaMemcpy(host.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return host;
  }
  T* data() const { return data_; }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

// Runs the kernel and expects success.
template <class... Params, class... Args>
void run(void (*kernel)(Params...), const LaunchConfig& config, Args&&... args) {
  EXPECT_EQ(launch(kernel, config, std::forward<Args>(args)...), FlashAttentionError::SUCCESS);
}

// Tests that need the hooks.
class AccessTest : public SimulatorTest {
 protected:
  void SetUp() override {
    SimulatorTest::SetUp();
    if (!counts_accesses()) GTEST_SKIP() << "compiled without hooks: accesses are not seen";
  }
};

inline bool says(const Finding& finding, const std::string& text) {
  const bool found = finding.message().find(text) != std::string::npos;
  EXPECT_TRUE(found) << "no \"" << text << "\" in:\n" << finding.message();
  return found;
}

// "file.cu:line" of the one line that ends in the comment `// <mark>`.
inline std::string line_marked(const std::string& path, const std::string& mark) {
  std::ifstream file(path);
  const std::string comment = "// " + mark;
  std::string text;
  for (int line = 1; std::getline(file, text); ++line) {
    if (text.size() >= comment.size() &&
        text.compare(text.size() - comment.size(), comment.size(), comment) == 0) {
      return path.substr(path.rfind('/') + 1) + ':' + std::to_string(line);
    }
  }
  return "no line marked " + mark;
}

// Checks a finding's title and line, and that its report shows the other lines. Lines are named by
// their marks; an empty title or mark may be any.
inline void expect_report(const Finding& finding, const std::string& title, const std::string& mark,
                          const std::vector<std::string>& others = {},
                          const char* file = __builtin_FILE()) {
  if (!title.empty()) {
    EXPECT_EQ(finding.title(), title);
  }
  if (!mark.empty()) {
    EXPECT_EQ(finding.location, line_marked(file, mark));
  }
  for (const std::string& other : others) says(finding, line_marked(file, other));
}
inline void expect_lines(const Finding& finding, const std::vector<std::string>& marks,
                         const char* file = __builtin_FILE()) {
  expect_report(finding, "", "", marks, file);
}

// There must be findings of this kind, and each shows these lines. Others may be there, too.
inline void expect_some(FindingKind kind, const std::vector<std::string>& marks,
                        const char* file = __builtin_FILE()) {
  bool some = false;
  for (const Finding& finding : take_findings()) {
    if (finding.kind() != kind) continue;
    some = true;
    expect_lines(finding, marks, file);
  }
  EXPECT_TRUE(some) << "there is no such finding";
}

// There must be a finding with one of these titles, and all findings show these lines.
inline void expect_one_of(const std::vector<std::string>& titles,
                          const std::vector<std::string>& marks,
                          const char* file = __builtin_FILE()) {
  bool some = false;
  for (const Finding& finding : take_findings()) {
    some |= std::count(titles.begin(), titles.end(), finding.title()) != 0;
    expect_lines(finding, marks, file);
  }
  EXPECT_TRUE(some) << "there is no such finding";
}

// True if one of the findings has this title and shows these lines.
inline bool finds(const std::string& title, const std::vector<std::string>& marks,
                  const std::vector<Finding>& findings = take_findings(),
                  const char* file = __builtin_FILE()) {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
    return finding.title() == title &&
           std::all_of(marks.begin(), marks.end(), [&](const std::string& mark) {
             return finding.message().find(line_marked(file, mark)) != std::string::npos;
           });
  });
}

// "line 12", for the same line.
inline std::string line_number(const std::string& path, const std::string& mark) {
  const std::string place = line_marked(path, mark);
  return "line " + place.substr(place.rfind(':') + 1);
}

// The counts of that line ("line 12"), of one memory and one kind.
inline LineCounts counts_of_line(const std::string& line, bool shared, bool write) {
  for (const LineCounts& counts : line_counts()) {
    if ("line " + std::to_string(counts.line) == line && counts.shared == shared &&
        counts.write == write) {
      return counts;
    }
  }
  return {};
}

inline std::vector<Schedule> all_schedules() {
  return {{Schedule::Order::kInOrder, 0},
          {Schedule::Order::kReversed, 0},
          {Schedule::Order::kRandom, 1},
          {Schedule::Order::kRandom, 2},
          {Schedule::Order::kLagging, 1}};
}

// Calls the body under each schedule, and under so many random ones more.
template <class Body>
void under_all_schedules(unsigned more, const Body& body) {
  std::vector<Schedule> schedules = all_schedules();
  for (unsigned n = 0; n < more; ++n) schedules.push_back({Schedule::Order::kRandom, 3 + n});
  for (const Schedule& schedule : schedules) {
    SCOPED_TRACE(schedule_name(schedule));
    set_schedule(schedule);
    body();
  }
}
template <class Body>
void under_all_schedules(const Body& body) {
  under_all_schedules(0, body);
}

}  // namespace cuflash::simt

#define LINE_MARKED(mark) ::cuflash::simt::line_marked(__FILE__, mark)
#define LINE_NUMBER(mark) ::cuflash::simt::line_number(__FILE__, mark)

#endif  // CUFLASH_TESTS_SIMT_SUPPORT_H_
