#include "device/cpu_load.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

namespace trireme {
namespace {

double seconds_of(const timeval& time) { return double(time.tv_sec) + 1e-6 * double(time.tv_usec); }

// The number of a core in "cpu3", or nothing for "cpu" and other words.
std::optional<int> core_in(const std::string& word) {
  if (word.size() < 4 || word.compare(0, 3, "cpu") != 0) return std::nullopt;
  int core = 0;
  const auto [end, error] = std::from_chars(word.data() + 3, word.data() + word.size(), core);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return core;
}

}  // namespace

std::optional<CpuTimes> cpu_times_of(const std::string& stat, double ticks_per_s,
                                     const std::function<bool(int core)>& is_used) {
  std::istringstream lines(stat);
  CpuTimes times;
  bool has_core = false;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string word;
    fields >> word;
    const std::optional<int> core = core_in(word);
    if (!core || !is_used(*core)) continue;
    double user = 0, nice = 0, system = 0, idle = 0, io = 0, interrupts = 0, soft = 0, stolen = 0;
    if (!(fields >> user >> nice >> system >> idle >> io >> interrupts >> soft >> stolen)) continue;
    times.busy_s += (user + nice + system + interrupts + soft) / ticks_per_s;
    times.idle_s += (idle + io) / ticks_per_s;
    times.stolen_s += stolen / ticks_per_s;
    has_core = true;
  }
  if (!has_core) return std::nullopt;
  return times;
}

CpuLoad::CpuLoad() : is_used_(CPU_SETSIZE, false) {
  cpu_set_t own;
  if (::sched_getaffinity(0, sizeof own, &own) != 0) return;
  for (size_t core = 0; core < is_used_.size(); ++core) is_used_[core] = CPU_ISSET(core, &own);
}

std::optional<CpuTimes> CpuLoad::read() const {
  std::ifstream file("/proc/stat");
  std::ostringstream text;
  text << file.rdbuf();
  std::optional<CpuTimes> times =
      cpu_times_of(text.str(), double(::sysconf(_SC_CLK_TCK)),
                   [&](int core) { return core < CPU_SETSIZE && is_used_[size_t(core)]; });
  struct rusage usage {};
  if (!times || ::getrusage(RUSAGE_SELF, &usage) != 0) return std::nullopt;
  times->own_s = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  return times;
}

double share_of_others(const CpuTimes& before, const CpuTimes& after) {
  const double stolen = after.stolen_s - before.stolen_s, busy = after.busy_s - before.busy_s;
  const double all = after.idle_s - before.idle_s + busy + stolen;
  if (all <= 0.0) return 0.0;
  return std::clamp((busy + stolen - (after.own_s - before.own_s)) / all, 0.0, 1.0);
}

double share_left(double others, int threads, int cores) {
  if (threads <= 0 || cores <= 0) return 1.0;
  return std::min(1.0, (1.0 - others) * double(cores) / double(threads));
}

}  // namespace trireme
