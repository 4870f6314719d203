#include "agent/job_status.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <fstream>

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
