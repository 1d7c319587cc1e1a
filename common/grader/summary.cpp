// Runs the programs of a stage's exercises and prints their grades, in words or as JSON.
//
//     exercises [--json] STAGE PROGRAM...
//
// A PROGRAM that is not there did not compile; PROGRAM.log then holds the compiler's output.
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "grade_json.h"

namespace cuflash::exercises {
namespace {

using Json = nlohmann::ordered_json;

// The compiler's first errors, without the folders.
std::string errors_in(const std::string& log_path) {
  std::ifstream log(log_path);
  std::string text;
  int shown = 0;
  for (std::string line; shown < 3 && std::getline(log, line);) {
    const std::size_t error = line.find(" error: ");
    if (error == std::string::npos) continue;
    const std::string headline = line.substr(line.rfind('/', error) + 1) + '\n';
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

Json run(const std::string& program) {
  const std::string command = "exec '" + program + "' 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  for (char buffer[4096]; pipe != nullptr && std::fgets(buffer, sizeof(buffer), pipe);) {
    output += buffer;
  }
  const int status = pipe == nullptr ? 1 : pclose(pipe);
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (signal == SIGXCPU || signal == SIGALRM) {  // the limits that exercise.cpp sets
    return ungraded(
        Check::kMachine, "endless",
        "The kernel was stopped in the middle of a problem: a loop does not end, or repeats "
        "thousands of times what the stage does once. Look at the loop's condition and its step.");
  }
  const Json json = Json::parse(output, nullptr, false);
  return json.is_discarded() ? ungraded(Check::kMachine, "crashed", "The program crashed.", output)
                             : json;
}

Json grade_of(const std::string& program) {
  const std::string file = std::filesystem::path(program).filename();  // exercise_01_1_mask
  const std::string number_name = file.substr(file.find('_', file.find('_') + 1) + 1);
  const std::size_t bar = number_name.find('_');
  Json json = {{"exercise", std::stoi(number_name.substr(0, bar))},
               {"name", number_name.substr(bar + 1)}};
  json.update(std::filesystem::exists(program)
                  ? run(program)
                  : ungraded(Check::kCompiles, "does-not-compile",
                             "It does not compile:", errors_in(program + ".log")));
  return json;
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

void print_words(const Json& grade) {
  std::string name = grade["name"];
  std::replace(name.begin(), name.end(), '_', ' ');
  std::cout << "exercise " << grade["exercise"] << ", " << name << ": "
            << (grade["passed"] ? "done" : "not yet") << '\n';
  for (const Json& diagnosis : grade["diagnoses"]) {
    std::cout << wrapped(diagnosis["message"], "  ");
    std::istringstream details(diagnosis.value("details", ""));
    for (std::string line; std::getline(details, line);) std::cout << "    | " << line << '\n';
  }
}

// How to see the first answer that runs and is wrong; empty if there is none.
std::string next_step(const std::string& stage, const Json& grades) {
  for (const Json& grade : grades) {
    if (grade["passed"]) continue;
    const std::string id = grade["diagnoses"][0]["id"];
    if (id == "does-not-compile" || id == "endless") continue;
    return "Step by step: scripts/test.sh exercise " + stage.substr(0, 2) + ' ' +
           grade["exercise"].dump() + " --play\n";
  }
  return "";
}

int main(const std::vector<std::string>& arguments) {
  const bool json = arguments[0] == "--json";
  const std::string& stage = arguments[json ? 1 : 0];
  Json grades = Json::array();
  int done = 0;
  for (std::size_t n = json ? 2 : 1; n < arguments.size(); ++n) {
    grades.push_back(grade_of(arguments[n]));
    done += grades.back()["passed"].get<bool>();
    if (!json) print_words(grades.back());
  }
  if (json) {
    std::cout
        << Json({{"stage", stage}, {"done", done}, {"of", grades.size()}, {"exercises", grades}})
               .dump(2)
        << '\n';
  } else {
    std::cout << done << " of " << grades.size() << " done\n" << next_step(stage, grades);
  }
  return done == static_cast<int>(grades.size()) ? 0 : 1;
}

}  // namespace
}  // namespace cuflash::exercises

int main(int argc, char** argv) {
  return cuflash::exercises::main(std::vector<std::string>(argv + 1, argv + argc));
}
