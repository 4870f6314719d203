#include "agent/job_status.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <fstream>

#include "base/chrome_trace.h"
#include "base/sealed_json.h"

namespace trireme {

std::string text_of(const JobStatus& status) {
  std::vector<std::string> ranks;
  for (size_t rank = 0; rank < status.ranks.size(); ++rank) {
    ranks.push_back(fmt::format("{{\"rank\":{},\"host\":\"{}\",\"pid\":{},\"state\":\"{}\"}}", rank,
                                json_escaped(status.ranks[rank].host), status.ranks[rank].pid,
                                status.ranks[rank].state));
  }
  std::vector<std::string> hosts;
  for (const JobStatus::Host& host : status.hosts) {
    hosts.push_back(fmt::format("{{\"host\":\"{}\",\"state\":\"{}\",\"slots\":{}}}",
                                json_escaped(host.name), host.state, host.slots));
  }
  return seal_json(fmt::format(
      "{{\"state\":\"{}\",\"agent\":{{\"host\":\"{}\",\"pid\":{},\"start\":{}}},\"epoch\":{},"
      "\"step\":{},\"saved_step\":{},\"time\":{:.3f},\"hosts\":[{}],\"ranks\":[{}],\"failures\":[{}"
      "]}}\n",
      status.state, json_escaped(status.host), status.agent_pid, status.agent_start, status.epoch,
      status.step, status.saved_step, status.time_s, fmt::join(hosts, ","), fmt::join(ranks, ","),
      fmt::join(status.failures, ",")));
}

void write_status(const std::string& path, const std::string& text) {
  const std::string next = path + ".next";
  {
    std::ofstream file(next, std::ios::trunc);
    file << text;
    if (!file.flush()) return;
  }
  (void)std::rename(next.c_str(), path.c_str());
}

}  // namespace trireme
