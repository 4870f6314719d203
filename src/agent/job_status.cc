#include "agent/job_status.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/chrome_trace.h"

namespace trireme {

std::string to_json(const JobStatus& status) {
  std::vector<std::string> ranks;
  for (size_t rank = 0; rank < status.ranks.size(); ++rank) {
    ranks.push_back(fmt::format("{{\"rank\":{},\"host\":\"{}\",\"pid\":{},\"state\":\"{}\"}}", rank,
                                json_escaped(status.host), status.ranks[rank].pid,
                                status.ranks[rank].state));
  }
  return fmt::format(
      "{{\"state\":\"{}\",\"agent\":{{\"host\":\"{}\",\"pid\":{},\"start\":{}}},\"epoch\":{},"
      "\"step\":{},\"saved_step\":{},\"time\":{:.3f},\"ranks\":[{}],\"failures\":[{}]}}\n",
      status.state, json_escaped(status.host), status.agent_pid, status.agent_start, status.epoch,
      status.step, status.saved_step, status.time_s, fmt::join(ranks, ","),
      fmt::join(status.failures, ","));
}

uint64_t start_of_process(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;  // field 22 is the start
  uint64_t start = 0;
  fields >> start;
  return start;
}

void write_status(const std::string& path, const JobStatus& status) {
  const std::string next = path + ".next";
  {
    std::ofstream file(next, std::ios::trunc);
    file << to_json(status);
    if (!file.flush()) return;
  }
  (void)std::rename(next.c_str(), path.c_str());
}

}  // namespace trireme
