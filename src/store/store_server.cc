#include "store/store_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/file.h"
#include "store/disk_file.h"
#include "store/mount_point.h"
#include "store/remote_log.h"
#include "store/server_log_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr double kJoinS = 20.0;
constexpr double kReportS = 5.0;
constexpr size_t kMostClients = 512;

uint64_t read_epoch(const std::string& path) {
  const Result<std::string> text = read_text_file(path, 64);
  uint64_t epoch = 0;
  if (text.ok()) std::from_chars(text->data(), text->data() + text->size(), epoch);
  return epoch;
}

// The log of the metadata listens at the port after that of the chunks, or at any port if that of
// the chunks is 0, which means any.
std::string log_address_behind(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  std::from_chars(address.data() + colon + 1, address.data() + address.size(), port);
  return fmt::format("{}:{}", address.substr(0, colon), port == 0 ? 0 : port + 1);
}

Result<Overview> overview_from(RemoteLog& log) {
  TRIREME_TRY(answer,
              log.query(pack_question({.kind = QuestionKind::Overview}), Deadline::after(kJoinS)));
  return unpack_overview(answer.bytes);
}

// A folder without store.json must be empty, so that no store lies beside files of somebody else.
Status check_is_free(const std::string& folder) {
  if (fs::exists(folder + "/chunks") || fs::exists(folder + "/log")) {
    return damaged(folder + ": has chunks or metadata, but no store.json says whose they are");
  }
  const std::string name = foreign_entry_of(folder);
  if (name.empty()) return Done{};
  return usage(fmt::format(
      "{} is not an empty folder, it has {}; each disk of a store begins empty", folder, name));
}

// Nothing else says whose the folder is, and at which address it is served.
Error with_remedy(const Error& error) {
  return {error.kind, error.message +
                          "; give up this disk: empty its folder, and start the server at its old "
                          "address (--listen) and with --join of another one, which writes its "
                          "chunks again"};
}

Status check_listen(const std::string& address) {
  const bool is_any = address.starts_with("0.0.0.0:") || address.starts_with("[::]:");
  if (!is_any && address.find(':') != std::string::npos) return Done{};
  return usage(fmt::format(
      "--listen {}: others must reach the server at this address, such as 10.0.0.1:4000", address));
}

}  // namespace

Result<std::unique_ptr<StoreServer>> StoreServer::open(StoreServerOptions options) {
  TRIREME_TRY_DONE(check_listen(options.listen));
  if (options.secret.empty()) return usage("a server of a store needs a secret");
  std::unique_ptr<StoreServer> server(new StoreServer(std::move(options)));
  const bool is_known = fs::exists(server->options_.folder + "/store.json");
  TRIREME_TRY_DONE(server->start());
  StoreServer* const self = server.get();
  self->visits_ =
      std::make_unique<Visits>(std::move(*self->reception_), VisitLimits{.most = kMostClients},
                               self->options_.log, [self] { return self->serves_visitor(); });
  if (is_known && !self->options_.join.empty()) TRIREME_TRY_DONE(self->join_store(true));
  const auto chunks = [self] {
    const std::lock_guard lock(self->mutex_);
    return self->chunks_;
  };
  self->scrub_ = std::make_unique<BackgroundScrub>(
      self->options_.scrub, chunks, [self](ChunkName name) { return self->report_damage(name); },
      [self] { self->mend_metadata(); }, self->options_.log);
  self->repair_ = std::make_unique<BackgroundRepair>(
      self->options_.repair, self->options_.secret, [self] { return self->led_store(); },
      self->options_.log);
  return server;
}

Status StoreServer::start() {
  const std::string& folder = options_.folder;
  if (!fs::is_directory(folder)) {
    return usage(folder + ": there is no such folder; mount its disk, or make the folder");
  }
  const bool is_known = fs::exists(folder + "/store.json");
  if (!is_known) TRIREME_TRY_DONE(check_is_free(folder));
  TRIREME_TRY(lock, FileLock::take(folder + "/lock"));
  lock_ = std::make_unique<FileLock>(std::move(lock));
  std::string listen = options_.listen;
  std::string log_listen =
      options_.log_listen.empty() ? log_address_behind(listen) : options_.log_listen;
  if (is_known) {
    const Result<FolderIdentity> identity = read_identity(folder);
    if (!identity.ok()) return with_remedy(identity.error());
    const Status log = read_log_servers(folder, description_, log_start_);
    if (!log.ok()) return with_remedy(log.error());
    description_.identity = *identity;
    listen = description_.address;
    log_listen = description_.log_address;
  }
  TRIREME_TRY(listener, listen_at(listen));
  // The port of the log may be taken by now if this server keeps no metadata.
  if (!is_known || keeps_metadata(description_)) {
    TRIREME_TRY(log_listener, listen_at(log_listen));
    log_listener_ = std::move(log_listener);
    description_.log_address = own_address(log_listener_);
  }
  reception_ = std::make_unique<Reception>(std::move(listener), secret_of_store(options_.secret),
                                           options_.log);
  description_.address = reception_->address();
  if (!is_known) return options_.join.empty() ? Status(Done{}) : join_store(false);
  epoch_ = read_epoch(epoch_path());
  chunks_ = std::make_shared<ChunkFolder>(folder, description_.identity.store, options_.faults);
  TRIREME_TRY_DONE(start_log());
  TRIREME_TRY(unfinished, chunks_->remove_unfinished());
  static_cast<void>(unfinished);
  return Done{};
}

// Writes the identity last, so that the folder counts as empty after a crash or an error.
Status StoreServer::become(const ServerDescription& description) {
  const std::string& folder = options_.folder;
  // A disk that was mounted over the empty folder meanwhile keeps its identity.
  if (fs::exists(folder + "/store.json")) {
    return usage(folder + ": has the disk of a store already");
  }
  TRIREME_TRY_DONE(check_is_free(folder));
  ServerDescription mine = description_;
  mine.identity = description.identity;
  mine.log_servers = description.log_servers;
  if (keeps_metadata(mine) && !log_listener_.is_open()) {
    TRIREME_TRY(log_listener, listen_at(mine.log_address));
    log_listener_ = std::move(log_listener);
  }
  const LogStart start = first_start_of(mine);
  TRIREME_TRY_DONE(write_log_servers(folder, mine, start));
  TRIREME_TRY_DONE(write_identity(folder, mine.identity, nullptr));
  description_ = std::move(mine);
  log_start_ = start;
  chunks_ = std::make_shared<ChunkFolder>(folder, description_.identity.store, options_.faults);
  return start_log();
}

Status StoreServer::join_store(bool is_known) {
  StorePeer peer(options_.join, secret_of_store(options_.secret));
  TRIREME_TRY(reply, peer.ask({.op = StoreOp::Describe}, kJoinS));
  TRIREME_TRY(theirs, unpack_description(reply.text));
  const uint64_t store = theirs.identity.store;
  if (store == 0) {
    return usage(options_.join + " belongs to no store yet; create one, or start without --join");
  }
  if (is_known && store != description_.identity.store) {
    return usage(fmt::format(
        "{} has a disk of the store {}, and {} serves the store {}; empty the folder "
        "to let it join {}, or name a server of {} with --join",
        options_.folder, description_.identity.store_name, options_.join,
        theirs.identity.store_name, theirs.identity.store_name, description_.identity.store_name));
  }
  // A server that kept metadata has lost its votes with the old disk. If it voted again without
  // them, an acknowledged command could be lost. So it keeps none on the new disk.
  if (!is_known) {
    theirs.log_servers = log_servers_without(theirs.log_servers, description_.address);
  }
  std::vector<std::string> addresses;
  for (const LogServer& server : theirs.log_servers) addresses.push_back(server.address);
  RemoteLog log(addresses, secret_of_store(options_.secret), store);
  return enter_metadata(log, theirs, is_known);
}

Status StoreServer::enter_metadata(RemoteLog& log, const ServerDescription& theirs, bool is_known) {
  const Deadline deadline = Deadline::after(kJoinS);
  for (;;) {
    TRIREME_TRY(has_entered, try_to_enter(log, theirs, is_known));
    if (has_entered) return Done{};
    if (deadline.left_ms() == 0) {
      return Error{ErrorKind::Runtime,
                   description_.address +
                       ": other servers joined first, again and again; start the server once more"};
    }
  }
}

Result<bool> StoreServer::try_to_enter(RemoteLog& log, ServerDescription theirs, bool& is_known) {
  TRIREME_TRY(overview, overview_from(log));
  const auto known =
      std::ranges::find(overview.servers, description_.address, &ServerRecord::address);
  const bool is_new = known == overview.servers.end();
  ServerRecord record = is_new ? ServerRecord{.name = description_.address,
                                              .address = description_.address,
                                              .domain = host_of(description_.address)}
                               : *known;
  if (is_known && !is_new) {
    const uint64_t mine = description_.identity.incarnation;
    if (mine == record.incarnation) return true;
    if (mine < record.incarnation) {
      return usage(fmt::format(
          "{} has disk {} of {}, and disk {} is in use; empty the folder, and start the server "
          "again with --join",
          options_.folder, mine, record.name, record.incarnation));
    }
  }
  if (!is_new) ++record.incarnation;
  record.capacity_bytes = free_bytes_of(options_.folder);
  // The folder stores the number of its disk before the metadata do. After a crash between the two,
  // the next start with --join tells the metadata again.
  theirs.identity.server = record.name;
  theirs.identity.incarnation = record.incarnation;
  if (!is_known) TRIREME_TRY_DONE(become(theirs));
  is_known = true;
  MetadataCommand command{.kind = CommandKind::Server};
  command.number = drawn_number();
  command.server_index = int32_t(known - overview.servers.begin());
  command.servers.push_back(record);
  TRIREME_TRY(applied, log.apply(pack_command(command), Deadline::after(kJoinS)));
  const Result<std::vector<uint64_t>> entered = unpack_tokens(applied.bytes);
  if (entered.ok()) return true;
  // Of several servers that join at the same moment, one gets the index that all of them saw.
  TRIREME_TRY(now, overview_from(log));
  if (is_new && now.servers.size() > overview.servers.size()) return false;
  return entered.error();
}

StoreServer::~StoreServer() {
  const std::lock_guard lock(mutex_);
  is_ending_ = true;
  if (leader_ != nullptr) leader_->stop();
}

Status StoreServer::report_damage(ChunkName name) {
  const ServerDescription mine = description();
  std::vector<std::string> addresses;
  for (const LogServer& server : mine.log_servers) addresses.push_back(server.address);
  RemoteLog log(addresses, secret_of_store(options_.secret), mine.identity.store);
  const Deadline deadline = Deadline::after(kReportS);
  TRIREME_TRY(answer, log.query(pack_question({.kind = QuestionKind::Overview}), deadline));
  TRIREME_TRY(overview, unpack_overview(answer.bytes));
  const auto record =
      std::ranges::find(overview.servers, mine.identity.server, &ServerRecord::name);
  if (record == overview.servers.end() || record->incarnation != mine.identity.incarnation) {
    return usage("this server has a disk that was replaced");
  }
  MetadataCommand lose{.kind = CommandKind::Lose, .number = drawn_number()};
  lose.moves.push_back(
      {name.block, name.chunk, int32_t(record - overview.servers.begin()), kNoServer});
  TRIREME_TRY(applied, log.apply(pack_command(lose), deadline));
  TRIREME_TRY(tokens, unpack_tokens(applied.bytes));
  static_cast<void>(tokens);
  return Done{};
}

ServerDescription StoreServer::description() {
  ServerDescription description;
  {
    const std::lock_guard lock(mutex_);
    description = description_;
  }
  description.free_bytes = free_bytes_of(options_.folder);
  return description;
}

// The disk is looked at without the lock, because a disk that hangs must not hold up the others.
Status StoreServer::check_disk() {
  const auto store_now = [&] {
    const std::lock_guard lock(mutex_);
    return std::pair(description_.identity.store, description_.address);
  };
  const auto [store, address] = store_now();
  std::error_code error;
  const bool is_there = fs::exists(options_.folder + "/store.json", error);
  // If the server has changed its store meanwhile, the look says nothing.
  if (error || is_there == (store != 0) || store_now().first != store) return Done{};
  const char* const why = is_there ? "its folder was empty and now has the disk of a store"
                                   : "its disk is gone, because its folder has no store.json";
  return Error{ErrorKind::Runtime, fmt::format("{}: {}", address, why)};
}

}  // namespace trireme
