// Runs the programs of a stage's exercises and prints their grades, in words or as JSON.
//
//     exercises [--json | --more] STAGE PROGRAM...
//
// --more also tells what the stage does where an answer does something else.
// A PROGRAM that is not there did not compile. PROGRAM.log holds the compiler's output; where that
// is not there either, no answer was. What a PROGRAM prints is kept in PROGRAM.printed. Also prints
// how far each is: "[3/22]", the third of its problems, which scripts/exercise.sh draws.
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "grade.h"
#include "harness/json_text.h"

namespace cuflash::exercises {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kNotBegun = "not-begun";

// The compiler's first messages of a kind, " error: " or " warning: ", without the folders; only
// those of a file, unless its name is empty.
std::string messages_in(const std::string& log_path, const std::string& kind,
                        const std::string& file = "") {
  std::ifstream log(log_path);
  std::string text;
  int shown = 0;
  for (std::string line; shown < 3 && std::getline(log, line);) {
    const std::size_t at = line.find(kind);
    if (at == std::string::npos) continue;
    const std::string headline = line.substr(line.rfind('/', at) + 1) + '\n';
    if (headline.rfind(file, 0) != 0) continue;
    if (text.find(headline) != std::string::npos) continue;  // of another instantiation
    text += headline;
    for (int more = 0; more < 2 && std::getline(log, line); ++more) text += line + '\n';
    ++shown;
  }
  return text;
}

Json ungraded(Check check, const char* id, const std::string& message,
              const std::string& details = "") {
  return to_json({check, {{id, message, details}}});
}

// The first lines that the answer printed.
std::string first_lines(const std::string& path) {
  constexpr int kLines = 10;
  constexpr std::size_t kWidth = 200;
  std::ifstream file(path);
  std::string text;
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    if (lines < kLines) text += line.substr(0, kWidth) + '\n';
  }
  if (lines > kLines) text += "... and " + std::to_string(lines - kLines) + " more lines\n";
  return text;
}

// No answer can guess it.
std::string secret_word() {
  std::random_device random;
  return std::to_string(random()) + '-' + std::to_string(random());
}

// What a program has reported, and how it ended.
struct Report {
  std::string grade;                 // JSON; empty if it ended before
  std::string at = "its beginning";  // "problem 3 of 22, b1_h1_q17k13_d64_f32"
  int status = 1;
};

Report report_of(const std::string& program) {
  const std::string word = secret_word();
  const std::string command =
      "exec '" + program + "' " + word + " 3>&1 >'" + program + ".printed' 2>&1 </dev/null";
  Report report;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return report;
  char* line = nullptr;
  std::size_t capacity = 0;
  for (ssize_t size = 0; (size = getline(&line, &capacity, pipe)) > 0;) {
    std::string text(line, static_cast<std::size_t>(size - 1));
    if (text.rfind(word + ' ', 0) != 0) continue;
    text.erase(0, word.size() + 1);
    if (text[0] == '[') {
      std::cout << text << std::endl;
      report.at = text.substr(text.find(' ') + 1);
    } else {
      report.grade = text;
    }
  }
  std::free(line);
  report.status = pclose(pipe);
  return report;
}

// A grade, or why there is none.
Json judged(const Report& report) {
  const int signal = WIFSIGNALED(report.status) ? WTERMSIG(report.status) : 0;
  if (signal == SIGXCPU || signal == SIGALRM) {  // the limits that exercise.cpp sets
    return ungraded(Check::kMachine, "endless",
                    "The kernel was stopped at " + report.at +
                        ": a loop does not end, or repeats hundreds of times what the stage does "
                        "once. Look at the loop's condition and its step.");
  }
  if (signal != 0) {
    return ungraded(Check::kMachine, "crashed",
                    "The program crashed at " + report.at + ": " + strsignal(signal) +
                        (signal == SIGFPE ? ", an integer division by 0." : "."));
  }
  const Json grade = Json::parse(report.grade, nullptr, false);
  if (report.status == 0 && !grade.is_discarded()) return grade;
  return ungraded(Check::kMachine, "ended",
                  "The program ended at " + report.at +
                      ", before it was graded: an answer must not end it (exit, _exit).");
}

Json run(const std::string& program) {
  Json json = judged(report_of(program));
  const std::string printed = first_lines(program + ".printed");
  if (!printed.empty()) json["printed"] = printed;
  return json;
}

// Of an answer that is wrong.
void add_warnings(Json& grade, const std::string& warnings) {
  if (warnings.find("uninitialized") == std::string::npos) {
    grade["warnings"] = warnings;
    return;
  }
  grade["diagnoses"] = {{{"id", "uninitialised-variable"},
                         {"message",
                          "A variable is used before it is set. Look at that first: what else is "
                          "wrong may follow from it."},
                         {"details", warnings}}};
}

Json grade_of(const std::string& program) {
  const std::string file = std::filesystem::path(program).filename();  // exercise_01_1_mask
  const std::string number_name = file.substr(file.find('_', file.find('_') + 1) + 1);
  const std::size_t bar = number_name.find('_');
  Json json = {{"exercise", std::stoi(number_name.substr(0, bar))},
               {"name", number_name.substr(bar + 1)}};
  if (std::filesystem::exists(program)) {
    json.update(run(program));
  } else if (std::filesystem::exists(program + ".log")) {
    json.update(ungraded(Check::kCompiles, "does-not-compile",
                         "It does not compile:", messages_in(program + ".log", " error: ")));
  } else {
    json.update(ungraded(Check::kCompiles, kNotBegun, "The file is as it was made."));
  }
  const std::string warnings = messages_in(program + ".log", " warning: ", number_name + ".cuh:");
  if (std::filesystem::exists(program) && !warnings.empty() && !json["passed"].get<bool>()) {
    add_warnings(json, warnings);
  }
  return Json::parse(harness::json_text(json));  // The compiler and the answer print any bytes.
}

// Breaks lines at 100 columns, counted in bytes.
std::string wrapped(const std::string& text, const std::string& indent) {
  std::istringstream words(text);
  std::string lines, line = indent;
  for (std::string word; words >> word;) {
    if (line.size() + 1 + word.size() > 100) {
      lines += line + '\n';
      line = indent;
    }
    line += (line == indent ? "" : " ") + word;
  }
  return lines + line + '\n';
}

// The lines of a text, if there is one.
void print_quoted(const Json& json, const char* name, const char* headline = nullptr) {
  if (!json.contains(name)) return;
  if (headline != nullptr) std::cout << "  " << headline << '\n';
  std::istringstream lines(json[name].get<std::string>());
  for (std::string line; std::getline(lines, line);) {
    // The lines of reports and of the compiler are in columns.
    const bool prose = line.size() > 94 && line[0] != ' ' && line.find("  ") == std::string::npos;
    std::cout << (prose ? wrapped(line, "    | ") : "    | " + line + '\n');
  }
}

void print_words(const Json& grade, bool more) {
  std::string name = grade["name"];
  std::replace(name.begin(), name.end(), '_', ' ');
  const bool begun = grade["passed"] || grade["diagnoses"][0]["id"] != kNotBegun;
  const char* const state = grade["passed"] ? "done" : begun ? "not yet" : "not begun";
  std::cout << "exercise " << grade["exercise"] << ", " << name << ": " << state << '\n';
  if (!begun) return;
  for (const Json& diagnosis : grade["diagnoses"]) {
    std::cout << wrapped(diagnosis["message"], "  ");
    print_quoted(diagnosis, "details");
    if (more && diagnosis.contains("more")) std::cout << wrapped(diagnosis["more"], "  ");
  }
  print_quoted(grade, "warnings", "The compiler warns:");
  print_quoted(grade, "printed", "It printed:");
}

// How to see more of the first answer that runs and is wrong; empty if there is none.
std::string next_step(const std::string& stage, const Json& grades, bool more) {
  for (const Json& grade : grades) {
    if (grade["passed"]) continue;
    const Json& diagnosis = grade["diagnoses"][0];
    const std::string id = diagnosis["id"];
    if (id == kNotBegun || id == "does-not-compile" || id == "endless" || id == "ended") continue;
    const std::string command =
        "scripts/test.sh exercise " + stage.substr(0, 2) + ' ' + grade["exercise"].dump();
    const bool has_more = diagnosis.contains("more") && !more;
    return (has_more ? "What the stage does there: " + command + " --more\n" : "") +
           "Step by step: " + command + " --play\n";
  }
  return "";
}

int main(const std::vector<std::string>& arguments) {
  const bool json = arguments[0] == "--json", more = arguments[0] == "--more";
  const std::size_t first = json || more ? 1 : 0;
  const std::string& stage = arguments[first];
  Json grades = Json::array();
  int done = 0;
  for (std::size_t n = first + 1; n < arguments.size(); ++n) {
    grades.push_back(grade_of(arguments[n]));
    done += grades.back()["passed"].get<bool>();
    if (!json) print_words(grades.back(), more);
  }
  if (json) {
    const Json all = {
        {"stage", stage}, {"done", done}, {"of", grades.size()}, {"exercises", grades}};
    std::cout << all.dump(2) << '\n';
  } else {
    std::cout << done << " of " << grades.size() << " done\n" << next_step(stage, grades, more);
  }
  return done == static_cast<int>(grades.size()) ? 0 : 1;
}

}  // namespace
}  // namespace cuflash::exercises

int main(int argc, char** argv) {
  return cuflash::exercises::main(std::vector<std::string>(argv + 1, argv + argc));
}
