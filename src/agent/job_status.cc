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
    const JobStatus::Rank& one = status.ranks[rank];
    const std::string slow = one.slow > 0.0 ? fmt::format(",\"slow\":{:.2f}", one.slow) : "";
    ranks.push_back(fmt::format("{{\"rank\":{},\"host\":\"{}\",\"pid\":{},\"state\":\"{}\"{}}}",
                                rank, json_escaped(one.host), one.pid, one.state, slow));
  }
  std::vector<std::string> hosts;
  for (const JobStatus::Host& host : status.hosts) {
    hosts.push_back(fmt::format("{{\"host\":\"{}\",\"state\":\"{}\",\"slots\":{}}}",
                                json_escaped(host.name), host.state, host.slots));
  }
  std::string end;
  if (!status.end.empty()) {
    end =
        fmt::format(",\"exit_code\":{},\"end\":\"{}\"", status.exit_code, json_escaped(status.end));
  }
  std::string memory;
  if (status.memory_redone > 0) {
    memory = fmt::format(",\"memory_step\":{},\"memory_redone\":{}", status.memory_step,
                         status.memory_redone);
  }
  std::string launcher;
  if (status.launcher_pid > 0) {
    launcher = fmt::format(",\"launcher\":{{\"pid\":{},\"start\":{}}}", status.launcher_pid,
                           status.launcher_start);
  }
  return seal_json(fmt::format(
      "{{\"state\":\"{}\",\"agent\":{{\"host\":\"{}\",\"pid\":{},\"start\":{}}}{},\"epoch\":{},"
      "\"step\":{},\"saved_step\":{}{},\"time\":{:.3f},\"hosts\":[{}],\"ranks\":[{}],\"failures\":["
      "{}"
      "]{}}}\n",
      status.state, json_escaped(status.host), status.agent_pid, status.agent_start, launcher,
      status.epoch, status.step, status.saved_step, memory, status.time_s, fmt::join(hosts, ","),
      fmt::join(ranks, ","), fmt::join(status.failures, ","), end));
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
