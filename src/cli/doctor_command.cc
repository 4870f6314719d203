#include "cli/doctor_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <utility>

#include "base/json_text.h"
#include "base/units.h"
#include "comm/mpi/mpi_world.h"
#include "device/host.h"
#include "device/isa.h"
#include "watch/device_statistics.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using State = Finding::State;

constexpr int64_t kLittleMemory = int64_t{2} << 30;
constexpr int64_t kLittleDisk = int64_t{2} << 30;

Finding processor() {
  const std::vector<Isa> isas = supported_isas();
  if (isas.empty()) {
    return {State::Bad, "processor", cpu_model() + ": no AVX2 and FMA",
            "Trireme's kernels need a processor of 2013 (Haswell, Zen) or later"};
  }
  std::string names;
  for (const Isa isa : isas) names += fmt::format(" {}", name_of(isa));
  const bool has_bf16 = isas.back() >= Isa::Avx512Bf16;
  return {has_bf16 ? State::Good : State::Note, "processor",
          fmt::format("{}:{}", cpu_model(), names),
          has_bf16 ? ""
                   : "no bf16 instructions: bf16 runs in fp32 arithmetic; "
                     "--set precision.compute=fp32 may be faster"};
}

Finding cores() {
  return {State::Good, "cores", fmt::format("{} for this process", num_available_cores()), ""};
}

Finding memory() {
  const int64_t bytes = available_memory_bytes();
  if (bytes == 0) return {State::Note, "memory", "unknown", "set memory.limit_bytes"};
  return {bytes < kLittleMemory ? State::Note : State::Good, "memory",
          format_bytes(bytes) + " available",
          bytes < kLittleMemory ? "trireme plan says what a run needs" : ""};
}

// Returns "madvise" for "always [madvise] never".
std::string chosen_word(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const size_t begin = line.find('[');
  const size_t end = line.find(']');
  if (begin == std::string::npos || end == std::string::npos) return "";
  return line.substr(begin + 1, end - begin - 1);
}

Finding huge_pages() {
  const std::string path = "/sys/kernel/mm/transparent_hugepage/enabled";
  const std::string mode = chosen_word(path);
  if (mode == "always" || mode == "madvise") return {State::Good, "huge pages", mode, ""};
  return {State::Note, "huge pages", mode.empty() ? "unknown" : mode,
          fmt::format("echo madvise | sudo tee {}", path)};
}

Finding disk() {
  std::error_code error;
  const fs::space_info space = fs::space(".", error);
  if (error) return {State::Note, "disk", "unknown: " + error.message(), ""};
  const int64_t bytes = static_cast<int64_t>(space.available);
  return {bytes < kLittleDisk ? State::Note : State::Good, "disk",
          format_bytes(bytes) + " free here",
          bytes < kLittleDisk ? "checkpoints go to --out: choose a folder with more room" : ""};
}

Finding open_files() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return {State::Note, "open files", "unknown", ""};
  const bool few = limit.rlim_cur < 256;
  return {few ? State::Note : State::Good, "open files", fmt::format("{}", limit.rlim_cur),
          few ? "ulimit -n 1024" : ""};
}

// Checks for a program that an optional feature needs; `package` contains it.
Finding program(const std::string& name, const std::string& use, const std::string& package,
                const std::string& search_path) {
  if (has_program(name, search_path)) return {State::Good, name, "found: " + use, ""};
  return {State::Note, name, "not found: " + use, "sudo apt-get install " + package};
}

// mpirun is useful only for a binary that was built with MPI.
Finding mpi() {
  if (has_mpi()) return {State::Good, "MPI", "built in: run.backend = \"mpi\"", ""};
  return {State::Note, "MPI", "not built in: ranks are threads of one process",
          "sudo apt-get install libopenmpi-dev openmpi-bin && make build"};
}

// Says that GPUs are not used, where a user would look for it. No package changes that.
Finding accelerators() {
  std::error_code ignored;
  const bool has_device = fs::exists("/dev/nvidia0", ignored);
  return {State::Note, "GPU",
          has_device ? "found, and not used: this version trains on CPUs"
                     : "not used: this version trains on CPUs",
          ""};
}

// Adds the state of each device that NVIDIA's library reports.
void add_devices(std::vector<Finding>& findings) {
  for (const DeviceStatistics& device : Devices().read()) {
    std::string found = device.name.empty() ? "a device" : device.name;
    const char* separator = ": ";
    const auto add = [&](const std::string& part) {
      found += std::exchange(separator, ", ") + part;
    };
    if (device.temperature_c) add(fmt::format("{} C", *device.temperature_c));
    if (device.power_w) add(fmt::format("{} W", *device.power_w));
    const int64_t errors = device.ecc_uncorrected.value_or(0);
    if (errors > 0) add(fmt::format("{} errors that were not corrected", errors));
    if (!device.throttle.empty()) {
      add(fmt::format("slowed down: {}", fmt::join(device.throttle, " ")));
    }
    const bool is_well = errors == 0 && device.throttle.empty();
    findings.push_back(
        {is_well ? State::Good : State::Note, fmt::format("GPU {}", device.index), found, ""});
  }
}

std::string_view word_of(State state) {
  switch (state) {
    case State::Good:
      return "ok";
    case State::Note:
      return "note";
    case State::Bad:
      return "bad";
  }
  return "?";
}

void print_json(const std::vector<Finding>& findings, std::ostream& out) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"what", finding.what},
                    {"state", word_of(finding.state)},
                    {"found", finding.found},
                    {"remedy", finding.remedy}});
  }
  out << json_text(list) << "\n";
}

}  // namespace

std::vector<Finding> examine_machine(const std::string& search_path) {
  std::vector<Finding> findings = {
      processor(),
      cores(),
      memory(),
      huge_pages(),
      disk(),
      open_files(),
      accelerators(),
      mpi(),
      program("mpirun", "ranks as processes, run.backend = \"mpi\"", "openmpi-bin libopenmpi-dev",
              search_path),
      program("bible", "text of make demo", "bible-kjv bible-kjv-text", search_path),
      program("Rscript", "text of make demo", "r-cran-janeaustenr", search_path)};
  add_devices(findings);
  return findings;
}

Result<int> run_doctor(const DoctorOptions& options, CommandIo& io) {
  const std::vector<Finding> findings = examine_machine(options.search_path);
  const bool is_bad = std::any_of(findings.begin(), findings.end(),
                                  [](const Finding& f) { return f.state == State::Bad; });
  if (options.json) {
    print_json(findings, io.out);
  } else {
    for (const Finding& finding : findings) {
      io.out << fmt::format("{:<5} {:<11} {}\n", word_of(finding.state), finding.what,
                            finding.found);
      if (!finding.remedy.empty()) io.out << fmt::format("{:<17} -> {}\n", "", finding.remedy);
    }
  }
  return is_bad ? 5 : 0;
}

}  // namespace trireme
