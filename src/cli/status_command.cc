#include "cli/status_command.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <ostream>

#include "agent/job_status.h"
#include "base/bounded_json.h"
#include "base/file.h"
#include "device/host.h"

namespace trireme {
namespace {

constexpr int64_t kMostStatusBytes = int64_t{1} << 20;

struct FoundJob {
  std::string path;
  std::string text;
  nlohmann::json json;
  bool is_alive = false;  // its agent runs on this host
  int agent = 0;
};

Result<FoundJob> find_job(const std::string& run_dir) {
  FoundJob found{.path = run_dir + "/" + kStatusFile};
  const Result<std::string> text = read_text_file(found.path, kMostStatusBytes);
  if (!text.ok()) {
    return usage(
        fmt::format("{} has no {}: only runs of `trireme launch` have one, once they train",
                    run_dir, kStatusFile));
  }
  found.text = *text;
  const bool is_small = check_json_limits(found.text).ok();
  found.json = is_small ? nlohmann::json::parse(found.text, nullptr, false) : nlohmann::json();
  try {
    const nlohmann::json& agent = found.json.at("agent");
    found.agent = agent.at("pid").get<int>();
    const auto start = agent.at("start").get<uint64_t>();
    const bool is_here = agent.at("host").get<std::string>() == host_name();
    found.is_alive =
        is_here && found.agent > 1 && start != 0 && start_of_process(found.agent) == start;
  } catch (const nlohmann::json::exception&) {
    return damaged(found.path + " is not a status of a run: remove it");
  }
  return found;
}

std::string status_text(const FoundJob& job) {
  const nlohmann::json& json = job.json;
  std::string state = json.at("state").get<std::string>();
  if (state != "ended" && !job.is_alive) state = "its agent does not run on this host any more";
  std::string text = fmt::format("{}: epoch {}, step {}, saved after step {}\n", state,
                                 json.at("epoch").get<int64_t>(), json.at("step").get<int64_t>(),
                                 json.at("saved_step").get<int64_t>());
  for (const nlohmann::json& rank : json.at("ranks")) {
    text += fmt::format("rank {:<4} {}  process {:<8} {}\n", rank.at("rank").get<int>(),
                        rank.at("host").get<std::string>(), rank.at("pid").get<int>(),
                        rank.at("state").get<std::string>());
  }
  for (const nlohmann::json& failure : json.at("failures")) {
    text += fmt::format("failure {} after step {}: {}\n", failure.at("number").get<int>(),
                        failure.at("step").get<int64_t>(), failure.at("cause").get<std::string>());
  }
  return text;
}

}  // namespace

Result<int> run_status(const StatusOptions& options, CommandIo& io) {
  TRIREME_TRY(job, find_job(options.run_dir));
  if (options.json) {
    io.out << job.text;
    return 0;
  }
  try {
    io.out << status_text(job);
  } catch (const nlohmann::json::exception&) {
    return damaged(job.path + " is not a status of a run: remove it");
  }
  return 0;
}

Result<int> run_stop(const StatusOptions& options, CommandIo& io) {
  TRIREME_TRY(job, find_job(options.run_dir));
  if (!job.is_alive) {
    return usage(options.run_dir +
                 ": its agent does not run on this host: the run has ended, or it is on another "
                 "host");
  }
  if (::kill(job.agent, SIGTERM) != 0) {
    return Error{ErrorKind::Runtime, fmt::format("process {} cannot be asked to stop: {}",
                                                 job.agent, std::strerror(errno))};
  }
  io.out << fmt::format("process {} was asked to save and stop\n", job.agent);
  return 0;
}

}  // namespace trireme
