#include "cli/run_environment.h"

#include <filesystem>

#include "cli/version.h"
#include "device/host.h"

namespace trireme {

std::string program_path() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "trireme" : program.string();
}

std::string current_folder() {
  std::error_code error;
  const auto folder = std::filesystem::current_path(error);
  return error ? "" : folder.string();
}

std::vector<std::pair<std::string, std::string>> run_environment() {
  return {{"host", host_name()},
          {"cpu", cpu_model()},
          {"version", std::string(version())},
          {"commit", std::string(build_commit())},
          {"program", program_path()},
          {"started_in", current_folder()}};
}

}  // namespace trireme
