// How a server of a store keeps the metadata, and begins and ends to do so.

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "base/remove_folder.h"
#include "store/server_log_file.h"
#include "store/store_server.h"

namespace trireme {
namespace {

constexpr double kLogRequestS = 30.0;  // at most, for an answer of the log

}  // namespace

Status StoreServer::start_log() {
  RaftServerOptions options{.folder = options_.folder + "/log",
                            .secret = options_.secret,
                            .address = description_.log_address,
                            .log = options_.log};
  for (size_t server = 0; server < log_start_.servers.size(); ++server) {
    options.raft.first_members.servers.push_back(
        {ServerId(server + 1), log_start_.servers[server].log_address});
  }
  options.raft.id = log_start_.id;
  if (log_start_.id == 0) {  // others keep the metadata
    log_listener_ = Socket();
    return Done{};
  }
  options.raft.seed = std::random_device()();
  auto running = std::make_shared<LogOfServer>();
  Result<std::unique_ptr<RaftServer>> log =
      RaftServer::open(std::move(options), std::move(log_listener_), running->metadata);
  if (!log.ok() && log.error().kind == ErrorKind::Damaged) {
    // Its votes are lost, and its chunks are not.
    why_no_log_ = fmt::format(
        "{}; the server keeps no metadata until its log begins anew: trireme store "
        "replace-metadata {} {} {}",
        log.error().message, description_.identity.server, description_.identity.server,
        description_.identity.store_name);
    if (options_.log) options_.log(why_no_log_);
    return Done{};
  }
  if (!log.ok()) return log.error();
  running->log = std::move(*log);
  log_ = std::move(running);
  why_no_log_.clear();
  return Done{};
}

// The log of a new server is empty, and the servers that vote already tell it who they are. What is
// left of an older log has no votes any more.
Result<StoreReply> StoreServer::keep_log(const StoreRequest& request) {
  TRIREME_TRY(wanted, unpack_log_start(request.text));
  const std::lock_guard lock(mutex_);
  if (log_ != nullptr) return StoreReply{.text = pack_log_start(log_start_)};
  if (log_start_.id != 0 && why_no_log_.empty()) {
    return Error{ErrorKind::Runtime, description_.address +
                                         ": its log of the metadata does not run; start the server "
                                         "again"};
  }
  ServerDescription mine = description_;
  mine.log_servers = wanted.servers;
  if (wanted.id == 0 || !keeps_metadata(mine)) {
    return usage(description_.address + " is not among the servers that are to keep the metadata");
  }
  if (!log_listener_.is_open()) {
    TRIREME_TRY(log_listener, listen_at(mine.log_address));
    log_listener_ = std::move(log_listener);
  }
  const std::string folder = options_.folder + "/log";
  if (!remove_folder(folder)) return damaged(folder + ": cannot be removed");
  const LogStart start{.id = wanted.id, .servers = {}};
  TRIREME_TRY_DONE(write_log_servers(options_.folder, mine, start));
  description_ = std::move(mine);
  log_start_ = start;
  TRIREME_TRY_DONE(start_log());
  return StoreReply{.text = pack_log_start(log_start_)};
}

Status StoreServer::set_log_servers(const StoreRequest& request) {
  TRIREME_TRY(now, unpack_log_start(request.text));
  std::shared_ptr<LogOfServer> ended_log;
  {
    const std::lock_guard lock(mutex_);
    ServerDescription mine = description_;
    mine.log_servers = now.servers;
    // The members still have the place that this server lost with an older disk.
    if (log_start_.id == 0) {
      mine.log_servers = log_servers_without(std::move(mine.log_servers), mine.address);
    }
    const LogStart start =
        keeps_metadata(mine) ? log_start_ : LogStart{.servers = mine.log_servers};
    TRIREME_TRY_DONE(write_log_servers(options_.folder, mine, start));
    description_ = std::move(mine);
    log_start_ = start;
    if (start.id == 0) {
      ended_log = std::move(log_);
      why_no_log_.clear();
    }
  }
  // Requests under way may hold the log for a while. Its files stay until a log is kept here again.
  ended_log.reset();
  return Done{};
}

std::optional<StoreFile> StoreServer::led_store() {
  const std::lock_guard lock(mutex_);
  if (log_ == nullptr || !log_->log->standing().is_leader) return std::nullopt;
  StoreFile file{.id = description_.identity.store, .name = description_.identity.store_name};
  for (const LogServer& server : description_.log_servers) file.servers.push_back(server.address);
  return file;
}

Result<AppliedAnswer> StoreServer::ask_running(RaftServer& log, const StoreRequest& request,
                                               Deadline deadline) {
  switch (request.op) {
    case StoreOp::Apply:
      return log.apply(request.text, deadline);
    case StoreOp::Members: {
      // A server that was the leader would name old members. The answer to a question shows that it
      // still leads.
      TRIREME_TRY(answer, log.query(request.text, deadline));
      if (answer.is_leader) answer.bytes = encode_members(log.standing().members);
      return answer;
    }
    case StoreOp::ChangeMembers: {
      TRIREME_TRY_DONE(raise_epoch(request.epoch));
      TRIREME_TRY(members, decode_members(request.text));
      return log.change_members(members, deadline);
    }
    default:
      return log.query(request.text, deadline);
  }
}

Result<StoreReply> StoreServer::ask_log(const StoreRequest& request) {
  std::shared_ptr<LogOfServer> running;
  std::vector<LogServer> servers;
  {
    const std::lock_guard lock(mutex_);
    if (request.op == StoreOp::ChangeMembers && request.epoch < epoch_) {
      return usage(fmt::format(
          "{}: a newer command maintains the store, so this one is of an old epoch; run it again",
          description_.address));
    }
    if (description_.identity.store != request.store) {
      // This is not a usage error, so that the client asks the next server.
      return Error{
          ErrorKind::Runtime,
          fmt::format("{} keeps no metadata of the store that was meant", description_.address)};
    }
    running = log_;
    servers = description_.log_servers;
  }
  if (running == nullptr) return StoreReply{.is_leader = false};
  RaftServer& log = *running->log;
  // A client chooses its deadline, but none may hold up the end of this server for longer.
  const Deadline deadline =
      Deadline::after(std::min(double(request.deadline_ms) * 1e-3, kLogRequestS));
  Result<AppliedAnswer> answer = ask_running(log, request, deadline);
  if (!answer.ok()) return answer.error();
  StoreReply reply{.is_leader = answer->is_leader, .text = std::move(answer->bytes)};
  const auto leader = std::ranges::find(servers, answer->leader, &LogServer::log_address);
  if (leader != servers.end()) reply.leader = leader->address;
  const bool passes_on = request.passes_on && !reply.is_leader && !reply.leader.empty();
  return passes_on ? pass_on(request, reply.leader, deadline) : Result<StoreReply>(reply);
}

// The leader does not pass the request on once more, so it ends there.
Result<StoreReply> StoreServer::pass_on(StoreRequest request, const std::string& leader,
                                        Deadline deadline) {
  std::shared_ptr<StorePeer> peer;
  {
    const std::lock_guard lock(mutex_);
    if (is_ending_) return Error{ErrorKind::Runtime, description_.address + " is ending"};
    if (leader_ == nullptr || leader_->address() != leader) {
      leader_ = std::make_shared<StorePeer>(leader, secret_of_store(options_.secret));
    }
    peer = leader_;
  }
  request.passes_on = false;
  return peer->ask(std::move(request), double(deadline.left_ms()) * 1e-3);
}

}  // namespace trireme
