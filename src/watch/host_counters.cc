#include "watch/host_counters.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/clock.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostKernelLines = 200;
constexpr size_t kMostRecord = 8192;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

int64_t number_in_file(const std::string& path, int base = 10) {
  const std::string text = text_of(path);
  return text.empty() ? 0 : std::strtoll(text.c_str(), nullptr, base);
}

// Adds what `value` returns for every entry of a folder.
template <typename Value>
int64_t sum_over(const std::string& folder, const Value& value) {
  int64_t sum = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    sum += value(entry.path().string());
  return sum;
}

// The folder of a controller of cgroups of this process; "" if there is none.
std::string cgroup_folder(const std::string& controller) {
  std::istringstream lines(text_of("/proc/self/cgroup"));
  std::string folder;
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (names.find("," + controller + ",") != std::string::npos) {
      folder = "/sys/fs/cgroup/" + controller + path;
    } else if (names == ",," && folder.empty()) {
      folder = "/sys/fs/cgroup" + path;
    }
  }
  return folder;
}

int64_t oom_kills() {
  const std::string folder = cgroup_folder("memory");
  for (const char* name : {"/memory.events", "/memory.oom_control"}) {
    const std::string text = text_of(folder + name);
    if (text.find("oom_kill ") != std::string::npos) return number_after(text, "oom_kill");
  }
  return number_after(text_of("/proc/vmstat"), "oom_kill");
}

int64_t disk_errors() {
  return sum_over("/sys/block",
                  [](const std::string& disk) {
                    return number_in_file(disk + "/device/ioerr_cnt", 16);
                  }) +
         sum_over("/sys/fs/ext4",
                  [](const std::string& disk) { return number_in_file(disk + "/errors_count"); });
}

int64_t lost_carriers() {
  return sum_over("/sys/class/net", [](const std::string& adapter) {
    return number_in_file(adapter + "/carrier_down_count");
  });
}

int64_t memory_errors() {
  return sum_over("/sys/devices/system/edac/mc", [](const std::string& controller) {
    return number_in_file(controller + "/ue_count");
  });
}

int64_t throttled_ms() {
  const int64_t by_heat_ms = sum_over("/sys/devices/system/cpu", [](const std::string& core) {
    return number_in_file(core + "/thermal_throttle/core_throttle_total_time_ms");
  });
  const std::string text = text_of(cgroup_folder("cpu") + "/cpu.stat");
  const int64_t us = number_after(text, "throttled_usec");
  return by_heat_ms + us / 1000 + number_after(text, "throttled_time") / 1'000'000;
}

void read_cpu(HostCounters& counters) {
  const std::string stat = text_of("/proc/stat");
  std::istringstream fields(stat.substr(0, stat.find('\n')));
  std::string word;
  fields >> word;
  const double ticks_per_s = double(::sysconf(_SC_CLK_TCK));
  double value = 0.0;
  for (int field = 0; field < 8 && fields >> value; ++field) {
    counters.cpu_s += value / ticks_per_s;
    if (field == 7) counters.stolen_s = value / ticks_per_s;
  }
  counters.runnable = double(number_after(stat, "procs_running"));
}

// Of whole disks: partitions and loops would count twice.
void read_disks(HostCounters& counters) {
  std::istringstream lines(text_of("/proc/diskstats"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string major, minor, name;
    int64_t reads = 0, merged = 0, sectors = 0, read_ms = 0;
    int64_t writes = 0, writes_merged = 0, sectors_written = 0, write_ms = 0;
    fields >> major >> minor >> name >> reads >> merged >> sectors >> read_ms >> writes >>
        writes_merged >> sectors_written >> write_ms;
    std::error_code error;
    if (!fields || !fs::exists("/sys/block/" + name + "/device", error)) continue;
    counters.disk_ios += reads + writes;
    counters.disk_ms += read_ms + write_ms;
  }
}

}  // namespace

int64_t number_after(std::string_view text, std::string_view key) {
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (!line.starts_with(key) || line.size() == key.size()) continue;
    const char next = line[key.size()];
    if (next != ' ' && next != ':') continue;
    return std::strtoll(std::string(line.substr(key.size() + 1)).c_str(), nullptr, 10);
  }
  return 0;
}

int64_t network_errors_in(std::string_view net_dev) {
  std::istringstream lines{std::string(net_dev)};
  int64_t sum = 0;
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    std::istringstream name_text(line.substr(0, colon)), fields(line.substr(colon + 1));
    std::string name;
    name_text >> name;
    if (name == "lo") continue;
    // Received: bytes packets errs drop fifo frame compressed multicast; then the same for sent,
    // with colls and carrier. Received drops are left out: a host drops packets of protocols that
    // it does not know, all the time.
    int64_t values[16] = {};
    for (int64_t& value : values) fields >> value;
    sum += values[2] + values[10] + values[11] + values[14];
  }
  return sum;
}

double some_pressure_in(std::string_view pressure) {
  const size_t at = pressure.find("some avg10=");
  if (at == std::string_view::npos) return 0.0;
  return 0.01 * std::strtod(std::string(pressure.substr(at + 11, 16)).c_str(), nullptr);
}

HostCounters read_host_counters() {
  HostCounters counters;
  counters.taken_s = double(monotonic_ns()) * 1e-9;
  counters.oom_kills = oom_kills();
  counters.disk_errors = disk_errors();
  counters.network_errors = network_errors_in(text_of("/proc/net/dev")) + lost_carriers();
  counters.memory_errors = memory_errors();
  counters.throttled_ms = throttled_ms();
  read_cpu(counters);
  read_disks(counters);
  counters.major_faults = number_after(text_of("/proc/vmstat"), "pgmajfault");
  counters.memory_pressure = some_pressure_in(text_of("/proc/pressure/memory"));
  counters.available_memory_bytes = number_after(text_of("/proc/meminfo"), "MemAvailable") * 1024;
  return counters;
}

HostStatistics between(const HostCounters& before, const HostCounters& after) {
  const double cpu_s = after.cpu_s - before.cpu_s, seconds = after.taken_s - before.taken_s;
  const auto ios = double(after.disk_ios - before.disk_ios);
  return {.stolen = cpu_s > 0.0 ? (after.stolen_s - before.stolen_s) / cpu_s : 0.0,
          .runnable = after.runnable,
          .faults_per_s =
              seconds > 0.0 ? double(after.major_faults - before.major_faults) / seconds : 0.0,
          .memory_pressure = after.memory_pressure,
          .disk_ms = ios > 0.0 ? double(after.disk_ms - before.disk_ms) / ios : 0.0,
          .network_errors = after.network_errors - before.network_errors,
          .throttled_ms = after.throttled_ms - before.throttled_ms};
}

KernelLog::KernelLog() : fd_(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  if (fd_ >= 0) ::lseek(fd_, 0, SEEK_END);
}

KernelLog::~KernelLog() {
  if (fd_ >= 0) ::close(fd_);
}

std::vector<std::string> KernelLog::take() {
  std::vector<std::string> lines;
  std::string record(kMostRecord, '\0');
  while (fd_ >= 0) {
    const ssize_t bytes = ::read(fd_, record.data(), record.size());
    if (bytes < 0 && (errno == EPIPE || errno == EINTR)) continue;  // EPIPE: some lines are lost
    if (bytes <= 0) break;
    // "6,339,5140900,-;text\n", and lines of further fields that begin with a space
    const std::string_view text(record.data(), size_t(bytes));
    const size_t begin = text.find(';');
    if (begin == std::string_view::npos) continue;
    lines.emplace_back(text.substr(begin + 1, text.find('\n', begin) - begin - 1));
    if (lines.size() > kMostKernelLines) lines.erase(lines.begin());
  }
  return lines;
}

}  // namespace trireme
