// A server takes the place of another one that keeps the metadata of a shared store.

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "store/remote_log.h"
#include "store/store.h"
#include "store/store_status.h"

namespace trireme {
namespace {

constexpr double kTellS = 5.0;
constexpr double kStartS = 20.0;
constexpr double kChangeS = 60.0;

// The members of the log, the servers of the store that answer, and what these know of servers that
// keep the metadata or have kept them.
struct LogSurvey {
  LogMembers members;
  std::vector<std::optional<ServerDescription>> servers;  // by number
  std::vector<LogServer> known;

  void note(const LogServer& server) {
    if (std::ranges::count(known, server) == 0) known.push_back(server);
  }
  // True if the server at this address is the member, or was before its disk was lost.
  bool is_at(const LogMember& member, const std::string& address) const {
    return std::ranges::count(known, LogServer{address, member.address}) > 0;
  }
  std::vector<LogServer> servers_of(const LogMembers& some) const {
    std::vector<LogServer> found;
    for (const LogMember& member : some.servers) {
      const auto server = std::ranges::find(known, member.address, &LogServer::log_address);
      if (server != known.end()) found.push_back(*server);
    }
    return found;
  }
  std::string addresses() const {
    std::string text;
    for (const LogServer& server : servers_of(members)) {
      text += (text.empty() ? "" : ", ") + server.address;
    }
    return text;
  }
};

Result<LogSurvey> survey_log(RemoteLog& log, const std::vector<std::shared_ptr<StorePeer>>& peers,
                             uint64_t store) {
  LogSurvey survey;
  TRIREME_TRY(members, log.members(Deadline::after(kChangeS)));
  survey.members = std::move(members);
  for (const auto& peer : peers) {
    std::optional<ServerDescription>& found = survey.servers.emplace_back();
    const Result<StoreReply> reply = peer->ask({.op = StoreOp::Describe}, kTellS);
    if (!reply.ok()) continue;
    const Result<ServerDescription> description = unpack_description(reply->text);
    if (!description.ok() || description->identity.store != store) continue;
    found = *description;
    survey.note({found->address, found->log_address});
    for (const LogServer& server : found->log_servers) survey.note(server);
  }
  return survey;
}

LogMembers members_with(LogMembers members, const LogMember& member) {
  if (!members.has(member.id)) members.servers.push_back(member);
  std::ranges::sort(members.servers, {}, &LogMember::id);
  return members;
}

LogMembers members_without(LogMembers members, ServerId id) {
  std::erase_if(members.servers, [&](const LogMember& member) { return member.id == id; });
  return members;
}

// Checks that every member is at a server that is known. The servers are told no list without it.
Status check_all_are_known(const LogSurvey& survey) {
  for (const LogMember& member : survey.members.servers) {
    if (std::ranges::count(survey.known, member.address, &LogServer::log_address) > 0) continue;
    return Error{ErrorKind::Runtime,
                 fmt::format("the server with log address {} does not answer; run this again when "
                             "it does",
                             member.address)};
  }
  return Done{};
}

// Checks that the fresh server has no place of its own that it lost with an older disk. `running`
// is its id in the log, 0 if it keeps none.
Status check_lost_no_place(const LogSurvey& survey, const std::string& old,
                           const std::string& fresh, ServerId running) {
  if (old == fresh) return Done{};
  const bool has_lost_place = std::ranges::any_of(
      survey.members.servers,
      [&](const LogMember& member) { return member.id != running && survey.is_at(member, fresh); });
  if (!has_lost_place) return Done{};
  return usage(fmt::format("{} has a lost place itself; run replace-metadata {} {} first", fresh,
                           fresh, fresh));
}

// Checks that one of the servers keeps the metadata and the other one does not, unless an earlier
// call has begun to replace it.
Status check_places(const LogSurvey& survey, const std::string& old,
                    const ServerDescription& fresh) {
  TRIREME_TRY_DONE(check_all_are_known(survey));
  if (!keeps_metadata(fresh)) TRIREME_TRY_DONE(check_lost_no_place(survey, old, fresh.address, 0));
  const bool has_place = std::ranges::any_of(
      survey.members.servers, [&](const LogMember& member) { return survey.is_at(member, old); });
  if (!has_place && !keeps_metadata(fresh)) {
    return usage(
        fmt::format("{} keeps no metadata; these servers do: {}", old, survey.addresses()));
  }
  const bool keeps_them_beside_old =
      old != fresh.address && keeps_metadata(fresh) &&
      std::ranges::count(fresh.log_servers, old, &LogServer::address) > 0;
  if (!keeps_them_beside_old) return Done{};
  return usage(fmt::format("{} keeps the metadata already, as do all of: {}; name another server",
                           fresh.address, survey.addresses()));
}

}  // namespace

StoreRequest Store::request_to(StoreOp op, const ServerRecord& record) const {
  return {.op = op, .store = file_.id, .incarnation = record.incarnation, .epoch = maintainer_};
}

Result<ReplacedLogServer> Store::replace_log_server(const std::string& old,
                                                    const std::string& fresh) {
  if (!is_shared()) return usage("a store in folders has its metadata in every folder");
  if (maintainer_ == 0) return usage("only a maintainer replaces a server of the metadata");
  TRIREME_TRY(overview, overview());
  TRIREME_TRY(old_server, find_server(overview, old));
  TRIREME_TRY(fresh_server, find_server(overview, fresh));
  const std::string& old_address = addresses_[size_t(old_server)];
  auto& log = static_cast<RemoteLog&>(*log_);
  TRIREME_TRY(survey, survey_log(log, peers_, file_.id));
  const auto& answer = survey.servers[size_t(fresh_server)];
  if (!answer || target(fresh_server) == nullptr) {
    return usage(fmt::format("{} cannot be used: {}", fresh, describe(fresh_server)));
  }
  TRIREME_TRY_DONE(check_places(survey, old_address, *answer));

  // The fresh server starts its log first. It takes part in nothing until it is a member.
  const LogServer place{answer->address, answer->log_address};
  LogStart wanted{.id = ServerId(drawn_number() >> 34 | 1 << 20)};
  wanted.servers = log_servers_without(survey.servers_of(survey.members), old_address);
  if (std::ranges::count(wanted.servers, place) == 0) wanted.servers.push_back(place);
  StoreRequest start = request_to(StoreOp::KeepLog, overview.servers[size_t(fresh_server)]);
  start.text = pack_log_start(wanted);
  TRIREME_TRY(reply, peers_[size_t(fresh_server)]->ask(std::move(start), kStartS));
  TRIREME_TRY(started, unpack_log_start(reply.text));
  TRIREME_TRY_DONE(check_lost_no_place(survey, old_address, answer->address, started.id));

  // A lost server is removed first, so that the majority does not depend on the fresh one. One that
  // runs is removed last, so that one more server may be lost meanwhile.
  const LogMembers& before = survey.members;
  const auto leaving = std::ranges::find_if(before.servers, [&](const LogMember& member) {
    return member.id != started.id && survey.is_at(member, old_address);
  });
  const ServerId left = leaving == before.servers.end() ? 0 : leaving->id;
  const bool is_lost = old_server == fresh_server || !survey.servers[size_t(old_server)];
  const LogMember joining{started.id, place.log_address};
  const LogMembers after = members_without(members_with(before, joining), left);
  for (const LogMembers& step :
       {is_lost ? members_without(before, left) : members_with(before, joining), after}) {
    TRIREME_TRY_DONE(log.change_members(step, maintainer_, Deadline::after(kChangeS)));
  }
  return tell_log_servers(overview, survey.servers_of(after));
}

ReplacedLogServer Store::tell_log_servers(const Overview& overview,
                                          const std::vector<LogServer>& servers) {
  ReplacedLogServer replaced{.servers = servers, .not_told = {}};
  for (size_t server = 0; server < peers_.size(); ++server) {
    StoreRequest tell = request_to(StoreOp::LogServers, overview.servers[server]);
    tell.text = pack_log_start({.id = 0, .servers = servers});
    const Result<StoreReply> told = peers_[server]->ask(std::move(tell), kTellS);
    if (!told.ok()) replaced.not_told.push_back(addresses_[server]);
  }
  log_servers_ = servers;
  return replaced;
}

}  // namespace trireme
