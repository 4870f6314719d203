#include "cli/status_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <thread>

#include "agent/asked_job.h"
#include "agent/job_status.h"
#include "agent/place_variables.h"
#include "agent/process_stat.h"
#include "agent/rank_processes.h"
#include "base/bounded_json.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json_number.h"
#include "base/sealed_json.h"
#include "cli/path_checks.h"
#include "device/host.h"

namespace trireme {
namespace {

constexpr std::chrono::milliseconds kWatchEvery(250);
constexpr int64_t kSilenceNs = 60'000'000'000;
constexpr double kLeaderS = 30.0;  // for the agents of a job to agree who leads it
constexpr const char* kRemedy = "; it is not a status of a run of `trireme launch`: remove it";

struct FoundJob {
  std::string path;  // or the address that was asked
  std::string text;
  nlohmann::json json;
  bool is_alive = false;  // its agent or launcher runs on this host, or has answered
  int agent = 0;
  int launcher = 0;  // which keeps an agent for it; without one, the agent itself
  std::string host;  // of the agent

  bool is_here() const { return host == host_name(); }
};

Status check_has_status(const std::string& run_dir, const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error) || error) return Done{};
  TRIREME_TRY_DONE(require_run_folder(run_dir));
  return usage(fmt::format("{} has no {}: only runs of `trireme launch` have one, once they train",
                           run_dir, kStatusFile));
}

// Says where the agent is, if it does not run on this host.
std::string absence_of(const FoundJob& job) {
  if (job.is_here()) return "its agent does not run any more";
  return fmt::format("its agent is process {} of host {}; only that host knows whether it runs",
                     job.agent, job.host);
}

// Finds the job in the folder of its run.
Result<FoundJob> find_job(const std::string& run_dir) {
  FoundJob found{.path = run_dir + "/" + kStatusFile};
  TRIREME_TRY_DONE(check_has_status(run_dir, found.path));
  TRIREME_TRY(text, read_text_file(found.path, kMostStatusBytes));
  found.text = text;
  const Status seal = check_seal(found.text);
  if (!seal.ok()) return damaged(with_context(seal.error(), found.path).message + kRemedy);
  Result<nlohmann::json> json = parse_bounded_json(found.text);
  if (!json.ok()) return damaged(with_context(json.error(), found.path).message + kRemedy);
  found.json = std::move(*json);
  try {
    const nlohmann::json& agent = found.json.at("agent");
    found.agent = whole_number<int>(agent.at("pid"));
    found.host = agent.at("host").get<std::string>();
    const nlohmann::json& launcher = found.json.value("launcher", agent);
    found.launcher = whole_number<int>(launcher.at("pid"));
    const auto start = whole_number<uint64_t>(launcher.at("start"));
    const auto stat = stat_of_process(found.launcher);
    found.is_alive =
        found.is_here() && found.launcher > 1 && start != 0 && stat && stat->start == start;
  } catch (const nlohmann::json::exception&) {
    return damaged(found.path + ": a key is missing or of another type" + kRemedy);
  }
  return found;
}

// Asks the agents of the job. The checksum of the answer was checked.
Result<FoundJob> ask_job(AskedJob& asked, const std::string& address) {
  TRIREME_TRY(text, asked.status(kLeaderS));
  FoundJob found{.path = address, .text = std::move(text), .is_alive = true};
  TRIREME_TRY(json, parse_bounded_json(found.text));
  found.json = std::move(json);
  return found;
}

// HOST:PORT, which is no folder.
bool is_address(const std::string& place) {
  const size_t colon = place.rfind(':');
  std::error_code error;
  if (colon == std::string::npos || colon == 0 || std::filesystem::exists(place, error)) {
    return false;
  }
  const std::string port = place.substr(colon + 1);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return place.find('/') == std::string::npos && !port.empty() &&
         std::all_of(port.begin(), port.end(), is_digit);
}

using JobFinder = std::function<Result<FoundJob>()>;

// The returned function uses the options.
Result<JobFinder> finder_of(const StatusOptions& options, const CommandIo& io) {
  if (!is_address(options.run_dir)) return JobFinder([&] { return find_job(options.run_dir); });
  if (io.launch.secret.empty()) {
    return usage(
        fmt::format("{} is asked as an agent of a job, but the secret of the job is "
                    "missing; set the variable {} to that of the launcher, or give the "
                    "folder of the run",
                    options.run_dir, kSecretVariable));
  }
  const auto asked = std::make_shared<AskedJob>(options.run_dir, io.launch.secret);
  return JobFinder([&options, asked] { return ask_job(*asked, options.run_dir); });
}

std::string status_text(const FoundJob& job) {
  const nlohmann::json& json = job.json;
  std::string state = json.at("state").get<std::string>();
  if (state != "ended" && !job.is_alive) {
    state += " when it last reported (" + absence_of(job) + ")";
  }
  std::string text =
      fmt::format("{}: epoch {}, step {}, saved after step {}\n", state,
                  whole_number<int64_t>(json.at("epoch")), whole_number<int64_t>(json.at("step")),
                  whole_number<int64_t>(json.at("saved_step")));
  const int64_t redone = whole_number_or(json, "memory_redone", int64_t{0});
  if (redone > 0 && json.at("state") != "ended") {
    text +=
        fmt::format("in memory after step {}; if a rank or host is lost, at most {} {} repeated\n",
                    whole_number<int64_t>(json.at("memory_step")), redone,
                    redone == 1 ? "step is" : "steps are");
  }
  if (json.contains("end")) {
    text += fmt::format("exit code {}: {}\n", whole_number<int>(json.at("exit_code")),
                        json.at("end").get<std::string>());
  }
  if (json.at("hosts").size() > 1) {
    for (const nlohmann::json& host : json.at("hosts")) {
      const int slots = whole_number<int>(host.at("slots"));
      text += fmt::format("host {}  {}, {} slot{}\n", host.at("host").get<std::string>(),
                          host.at("state").get<std::string>(), slots, slots == 1 ? "" : "s");
    }
  }
  for (const nlohmann::json& rank : json.at("ranks")) {
    const int pid = whole_number<int>(rank.at("pid"));
    text += fmt::format("rank {:<4} {}  process {:<8} {}\n", whole_number<int>(rank.at("rank")),
                        rank.at("host").get<std::string>(), pid > 0 ? std::to_string(pid) : "-",
                        rank.at("state").get<std::string>());
  }
  for (const nlohmann::json& failure : json.at("failures")) {
    text += fmt::format("failure {} after step {}: {}\n", whole_number<int>(failure.at("number")),
                        whole_number<int64_t>(failure.at("step")),
                        failure.at("cause").get<std::string>());
  }
  return text;
}

// The text of a job for `status`, and whether it may change.
struct ShownStatus {
  std::string text;
  bool is_last = false;
};

Result<ShownStatus> shown_status(const JobFinder& find, const StatusOptions& options) {
  TRIREME_TRY(job, find());
  try {
    const bool may_live = job.is_alive || !job.is_here();
    return ShownStatus{.text = options.json ? job.text : status_text(job),
                       .is_last = job.json.at("state") == "ended" || !may_live};
  } catch (const nlohmann::json::exception&) {
    return damaged(job.path + ": a key is missing or of another type" + kRemedy);
  }
}

// Prints the status whenever it changes. A living agent reports every second.
Status watch(const JobFinder& find, const StatusOptions& options, CommandIo& io) {
  std::string printed;
  int64_t printed_ns = monotonic_ns();
  while (true) {
    TRIREME_TRY(shown, shown_status(find, options));
    if (shown.text != printed) {
      io.out << (printed.empty() || options.json ? "" : "\n") << shown.text << std::flush;
      printed = std::move(shown.text);
      printed_ns = monotonic_ns();
    }
    if (shown.is_last || !io.out) return Done{};
    if (monotonic_ns() - printed_ns > kSilenceNs) {
      return Error{ErrorKind::Runtime,
                   fmt::format("{} has not changed for {} s: the host of its agent may be gone",
                               options.run_dir, kSilenceNs / 1'000'000'000)};
    }
    std::this_thread::sleep_for(kWatchEvery);
  }
}

}  // namespace

Result<int> run_status(const StatusOptions& options, CommandIo& io) {
  TRIREME_TRY(find, finder_of(options, io));
  if (options.watch) {
    TRIREME_TRY_DONE(watch(find, options, io));
    return 0;
  }
  TRIREME_TRY(shown, shown_status(find, options));
  io.out << shown.text;
  return 0;
}

// Any agent of a run on several hosts may lead it, so the request lies in the folder of the run.
Result<int> run_stop(const StatusOptions& options, CommandIo& io) {
  TRIREME_TRY(job, find_job(options.run_dir));
  const bool has_ended = job.json.value("state", "") == "ended";
  const bool has_hosts = job.json.value("hosts", nlohmann::json::array()).size() > 1;
  if (has_hosts && !has_ended) {
    TRIREME_TRY_DONE(write_file_atomically(options.run_dir + "/" + kStopFile, ""));
    io.out << "the run was asked to save and stop\n";
    return 0;
  }
  if (!job.is_alive) {
    return usage(fmt::format("{}: {}", options.run_dir,
                             job.is_here() ? "the run has ended: " + absence_of(job)
                                           : absence_of(job) + ": run this command there"));
  }
  if (::kill(job.launcher, SIGTERM) != 0) {
    return Error{ErrorKind::Runtime, fmt::format("process {} cannot be asked to stop: {}",
                                                 job.launcher, std::strerror(errno))};
  }
  io.out << fmt::format("process {} was asked to save and stop\n", job.launcher);
  return 0;
}

Result<int> run_drain(const DrainOptions& options, CommandIo& io) {
  TRIREME_TRY(job, find_job(options.run_dir));
  if (job.is_here() && !job.is_alive) {
    return usage(fmt::format("{}: the run has ended: {}", options.run_dir, absence_of(job)));
  }
  std::vector<std::string> usable;
  try {
    for (const nlohmann::json& host : job.json.at("hosts")) {
      const auto state = host.at("state").get<std::string>();
      if (state == "in use" || state == "spare") usable.push_back(host.at("host"));
    }
  } catch (const nlohmann::json::exception&) {
    return damaged(job.path + ": a key is missing or of another type" + kRemedy);
  }
  if (std::find(usable.begin(), usable.end(), options.host) == usable.end()) {
    return usage(fmt::format("{} has no host {} that could be drained; its hosts are {}",
                             options.run_dir, options.host, fmt::join(usable, ", ")));
  }
  if (usable.size() == 1) {
    return usage(fmt::format("{} is the only host of {}; use trireme stop to end the run",
                             options.host, options.run_dir));
  }
  const std::string request = options.run_dir + "/" + kDrainFile + options.host;
  TRIREME_TRY_DONE(write_file_atomically(request, ""));
  io.out << fmt::format("host {} will be left after the ranks have saved\n", options.host);
  return 0;
}

}  // namespace trireme
