#include "provenance.h"

#include <cuda_runtime.h>
#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cuflash/stage.h"
#include "simt/simulator.h"

namespace cuflash::bench {
namespace {

// The first line of a command's output, or nothing if the command fails.
std::string output_of(const std::string& command) {
  std::FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return "";
  char line[256] = "";
  const bool read = std::fgets(line, sizeof line, pipe) != nullptr;
  const bool good = pclose(pipe) == 0;
  std::string text = read && good ? line : "";
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// The commit of the sources: CUFLASH_COMMIT if that is set, as in a copy without git's history.
std::string commit() {
  const char* given = std::getenv("CUFLASH_COMMIT");
  if (given != nullptr && *given != '\0') return given;
  return commit_of(CUFLASH_SOURCE_DIR);
}

// CUDA writes 12040 for 12.4.
std::string cuda_version(int version) {
  return version == 0 ? "none" : fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string driver() {
  int newest_cuda = 0;
  if (!simt::kSimulated) cudaDriverGetVersion(&newest_cuda);
  if (newest_cuda == 0) return "none";
  std::ifstream file("/proc/driver/nvidia/version");
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue …": the first word of digits.
  std::string word;
  while (file >> word && word.find_first_not_of("0123456789.") != std::string::npos) {
  }
  return (file ? word + ", " : "") + "supports CUDA " + cuda_version(newest_cuda);
}

// The highest clocks, as provenance.py states them.
std::string clocks() {
  if (simt::kSimulated) return "none";
  const std::string both =
      output_of("nvidia-smi --query-gpu=clocks.max.sm,clocks.max.memory --format=csv,noheader");
  const auto comma = both.find(", ");
  if (comma == std::string::npos) return "unknown";
  return fmt::format("at most {} (SM), {} (memory)", both.substr(0, comma), both.substr(comma + 2));
}

std::string join(int argc, char** argv) {
  std::string text;
  for (int i = 0; i < argc; ++i) text += (i ? " " : "") + std::string(argv[i]);
  return text;
}

std::string now() {
  const std::time_t seconds = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&seconds));
  return text;
}

}  // namespace

Provenance provenance(int argc, char** argv) {
  Provenance p;
  p.device = current_device().name;
  int runtime = 0;
  if (!simt::kSimulated) cudaRuntimeGetVersion(&runtime);
  p.driver = driver();
  p.cuda = cuda_version(runtime);
  p.backend = simt::kSimulated ? "simt" : "cuda";
  p.clocks = clocks();
#ifdef __clang__
  p.compiler = "clang " __clang_version__;
#else
  p.compiler = "g++ " __VERSION__;
#endif
  p.commit = commit();
  p.command = join(argc, argv);
  p.date = now();
  return p;
}

std::string commit_of(const std::string& folder) {
  setenv("CUFLASH_FOLDER", folder.c_str(), 1);  // The shell does not read a variable as a command.
  const std::string git = "git -C \"$CUFLASH_FOLDER\" ";
  const std::string hash = output_of(git + "rev-parse --short HEAD");
  if (hash.empty()) return "unknown";
  return hash + (output_of(git + "status --porcelain").empty() ? "" : "-dirty");
}

nlohmann::ordered_json to_json(const Provenance& p) {
  return {{"device", p.device},   {"driver", p.driver},   {"cuda", p.cuda},
          {"backend", p.backend}, {"clocks", p.clocks},   {"compiler", p.compiler},
          {"commit", p.commit},   {"command", p.command}, {"date", p.date}};
}

}  // namespace cuflash::bench
