// Grades the one exercise that is linked in, for `exercises`:
//
//     exercise_01_1_mask WORD
//
// Each line that it writes to descriptor 3 begins with the WORD: how far it is, "[3/22] problem 3
// of 22, b1_h1_q17k13_d64_f32", and at last the grade as JSON. The other output is the answer's.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>

#include "grade.h"
#include "harness/json_text.h"
#include "list.h"

namespace {

constexpr int kEnoughSeconds = 15;  // A kernel that needs longer is graded by what it has done.
constexpr rlim_t kCpuSeconds = 45;  // Ends an exercise that does not come to the next problem.
constexpr unsigned kSeconds = 600;  // Of any time: ends an exercise that only waits.
constexpr rlim_t kPrintedBytes = 1 << 20;  // Further output of an answer is lost.

// Ends this program where the kernel does not: by SIGXCPU after so much of the processor's time,
// which a machine that is slow or busy with other work does not use up sooner; or else by SIGALRM.
void limit_resources() {
  const rlimit cpu = {kCpuSeconds, kCpuSeconds + 1}, no_core = {0, 0};
  const rlimit printed = {kPrintedBytes, kPrintedBytes};
  setrlimit(RLIMIT_CPU, &cpu);
  setrlimit(RLIMIT_CORE, &no_core);
  setrlimit(RLIMIT_FSIZE, &printed);
  std::signal(SIGXFSZ, SIG_IGN);
  alarm(kSeconds);
}

// Where the grade goes. An answer that prints its own is not taken for the grader: it knows neither
// the descriptor nor the word.
class Report {
 public:
  explicit Report(char* word) : word_(word), file_(fdopen(fcntl(3, F_DUPFD_CLOEXEC, 64), "w")) {
    close(3);
    std::memset(word, 0, word_.size());
  }
  void line(const std::string& text) {
    std::fprintf(file_, "%s %s\n", word_.c_str(), text.c_str());
    std::fflush(file_);
  }

 private:
  std::string word_;
  std::FILE* file_;
};

}  // namespace

int main(int argc, char** argv) {
  using namespace cuflash;
  if (argc != 2 || fcntl(3, F_GETFD) < 0) {
    std::fputs("cuflash: scripts/test.sh exercise runs this.\n", stderr);
    return 2;
  }
  Report report(argv[1]);
  limit_resources();
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // A crash loses no line.
  const exercises::Entry& entry = exercises::entries().front();
  const auto begins = [&](int number, int count, const char* problem) {
    const std::string n = std::to_string(number), of = std::to_string(count);
    report.line('[' + n + '/' + of + "] problem " + n + " of " + of + ", " + problem);
    return std::clock() / CLOCKS_PER_SEC < kEnoughSeconds;
  };
  const auto grade =
      exercises::grade(*entry.stage, *entry.own, entry.pass, harness::Runs::kAll, begins);
  report.line(harness::json_text(exercises::to_json(grade)));
  return 0;
}
