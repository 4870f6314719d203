#include "store/shared_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <set>

#include "store/remote_chunks.h"
#include "store/remote_log.h"

namespace trireme {
namespace {

constexpr double kDescribeS = 2.0;
constexpr double kAssignS = 10.0;

size_t num_log_servers(size_t num_servers) {
  if (num_servers >= 5) return 5;
  return num_servers >= 3 ? 3 : 1;
}

Status check_secret(const std::string& secret) {
  if (!secret.empty()) return Done{};
  return usage("the servers of a store know each other by a secret: set TRIREME_SECRET to theirs");
}

Result<ServerDescription> description_of(StorePeer& peer) {
  TRIREME_TRY(reply, peer.ask({.op = StoreOp::Describe}, kDescribeS));
  return unpack_description(reply.text);
}

Result<Overview> overview_of(RemoteLog& log, double deadline_s) {
  TRIREME_TRY(answer, log.query(pack_question({.kind = QuestionKind::Overview}),
                                Deadline::after(deadline_s)));
  return unpack_overview(answer.bytes);
}

// True if a server has an empty disk, or one that was not taken in fully.
bool serves_new_disk(const ServerDescription& found, const StoreFile& file,
                     const ServerRecord& record) {
  const FolderIdentity& identity = found.identity;
  return identity.store == 0 || (identity.store == file.id && identity.server == record.name &&
                                 identity.incarnation == record.incarnation + 1);
}

// Returns why a server cannot be used, or "".
std::string why_not(const Result<ServerDescription>& found, const StoreFile& file,
                    const ServerRecord& record) {
  if (!found.ok()) return found.error().message;
  const FolderIdentity& identity = found->identity;
  if (identity.store != file.id || identity.server != record.name) {
    return fmt::format("{} serves {}", record.address,
                       identity.store == 0
                           ? "no store yet; the next scrub takes its disk in, unless the server is "
                             "drained or the old disk is needed: then scrub --new-disk does"
                           : identity.server + " of " + identity.store_name);
  }
  if (identity.incarnation == record.incarnation) return "";
  return fmt::format(
      "{} has disk {}, and disk {} is in use; empty its folder, and start it with "
      "--join",
      record.address, identity.incarnation, record.incarnation);
}

Status check_numbers(const StoreFile& file, size_t num_servers, size_t num_domains) {
  if (int(num_servers) < file.code.num_chunks() || num_servers > kMostServers) {
    return usage(fmt::format("the code {} needs {} to {} servers, and {} were given",
                             text_of(file.code), file.code.num_chunks(), kMostServers,
                             num_servers));
  }
  if (num_domains == 0 || num_domains == num_servers) return Done{};
  return usage(fmt::format("{} failure domains were given for {} servers; name one for each",
                           num_domains, num_servers));
}

using Peers = std::vector<std::unique_ptr<StorePeer>>;

// Asks servers of which none may belong to a store or be named twice.
Result<std::vector<ServerDescription>> describe_free_servers(const Peers& peers) {
  std::vector<ServerDescription> servers;
  std::set<std::string> addresses;
  for (const std::unique_ptr<StorePeer>& peer : peers) {
    TRIREME_TRY(server, description_of(*peer));
    if (server.identity.store != 0) {
      return usage(
          fmt::format("{} belongs to the store {} already; a store begins with empty folders",
                      peer->address(), server.identity.store_name));
    }
    if (!addresses.insert(server.address).second) return usage(peer->address() + " is named twice");
    servers.push_back(std::move(server));
  }
  return servers;
}

Status apply_create(RemoteLog log, const MetadataCommand& create, double deadline_s) {
  TRIREME_TRY(answer, log.apply(pack_command(create), Deadline::after(deadline_s)));
  TRIREME_TRY(tokens, unpack_tokens(answer.bytes));
  static_cast<void>(tokens);
  return Done{};
}

// Makes servers give up a store whose creation has failed. Returns the error, with the servers that
// may still belong to it. A server of another store has nothing to give up, and one that refuses
// has chunks, so its folder must not be emptied.
Error give_up(const Peers& peers, size_t num_asked, uint64_t store, const Error& error) {
  std::string left;
  for (size_t server = 0; server < num_asked; ++server) {
    const Result<StoreReply> done =
        peers[server]->ask({.op = StoreOp::Release, .store = store}, kAssignS);
    const bool is_refused = !done.ok() && done.error().kind == ErrorKind::Usage;
    if (!done.ok() && !is_refused) left += (left.empty() ? "" : ", ") + peers[server]->address();
  }
  if (left.empty()) return error;
  return Error{error.kind, fmt::format("{}; these servers may still belong to the store that was "
                                       "not made, so empty their folders and start them again: {}",
                                       error.message, left)};
}

}  // namespace

Status create_shared_store(StoreFile& file, const std::vector<std::string>& servers,
                           const std::vector<std::string>& domains, const StoreOptions& options) {
  TRIREME_TRY_DONE(check_numbers(file, servers.size(), domains.size()));
  TRIREME_TRY_DONE(check_secret(options.secret));
  const std::string secret = secret_of_store(options.secret);
  Peers peers;
  for (const std::string& address : servers) {
    peers.push_back(std::make_unique<StorePeer>(address, secret));
  }
  TRIREME_TRY(assigned, describe_free_servers(peers));
  MetadataCommand create{.kind = CommandKind::Create};
  create.number = file.id;
  create.facts = {.id = file.id,
                  .name = file.name,
                  .code = file.code,
                  .most_chunk_bytes = options.most_chunk_bytes};
  std::vector<LogServer> log_servers;
  for (size_t server = 0; server < assigned.size(); ++server) {
    ServerDescription& mine = assigned[server];
    const std::string name = fmt::format("s{}", server);
    create.servers.push_back({.name = name,
                              .address = mine.address,
                              .domain = domains.empty() ? host_of(mine.address) : domains[server],
                              .capacity_bytes = mine.free_bytes});
    mine.identity = {.store = file.id, .store_name = file.name, .server = name};
    if (server >= num_log_servers(assigned.size())) continue;
    log_servers.push_back({mine.address, mine.log_address});
    file.servers.push_back(mine.address);
  }
  for (size_t server = 0; server < assigned.size(); ++server) {
    assigned[server].log_servers = log_servers;
    const Result<StoreReply> done = peers[server]->ask(
        {.op = StoreOp::Assign, .text = pack_description(assigned[server])}, kAssignS);
    if (!done.ok()) return give_up(peers, server + 1, file.id, done.error());
  }
  const Status created =
      apply_create(RemoteLog(file.servers, secret, file.id), create, options.metadata_s);
  return created.ok() ? created : give_up(peers, peers.size(), file.id, created.error());
}

Result<StoreFile> find_shared_store(const std::string& address, const std::string& secret) {
  TRIREME_TRY_DONE(check_secret(secret));
  StorePeer peer(address, secret_of_store(secret));
  TRIREME_TRY(found, description_of(peer));
  if (found.identity.store == 0) {
    return usage(address + " belongs to no store yet; make one with: trireme store create");
  }
  StoreFile file{.id = found.identity.store, .name = found.identity.store_name};
  for (const LogServer& server : found.log_servers) file.servers.push_back(server.address);
  RemoteLog log(file.servers, secret_of_store(secret), file.id);
  TRIREME_TRY(overview, overview_of(log, StoreOptions().metadata_s));
  file.code = overview.facts.code;
  return file;
}

Result<std::unique_ptr<Store>> Store::open_shared(const StoreFile& file,
                                                  const StoreOptions& options) {
  TRIREME_TRY_DONE(check_secret(options.secret));
  auto log = std::make_unique<RemoteLog>(file.servers, secret_of_store(options.secret), file.id);
  TRIREME_TRY(overview, overview_of(*log, options.metadata_s));
  if (overview.facts.id != file.id) {
    return damaged(fmt::format("the servers of {} keep the metadata of another store", file.name));
  }
  std::vector<std::string> addresses;
  for (const ServerRecord& server : overview.servers) addresses.push_back(server.address);
  StoreFile whole = file;  // the caller may not know its code
  whole.code = overview.facts.code;
  std::unique_ptr<Store> store(new Store(whole, options, std::move(addresses)));
  store->log_ = std::move(log);
  if (options.access == StoreAccess::Maintain) {
    MetadataCommand begin{.kind = CommandKind::Begin};
    begin.paths.emplace_back(kMaintainerPath);
    if (options.maintains_after) begin.tokens = {*options.maintains_after};
    TRIREME_TRY(tokens, store->command(std::move(begin)));
    if (tokens.empty()) return damaged("the metadata gave no token");
    store->maintainer_ = tokens.front();
    store->hold_lease(tokens.front());
  }
  store->open_servers(overview);
  return store;
}

// Asks all servers in parallel who they are, and opens those that are the ones in the metadata.
void Store::open_servers(const Overview& overview) {
  std::mutex mutex;
  std::condition_variable has_news;
  size_t num_open = overview.servers.size();
  for (size_t server = 0; server < overview.servers.size(); ++server) {
    names_[server] = overview.servers[server].name;
    peers_.push_back(
        std::make_shared<StorePeer>(addresses_[server], secret_of_store(options_.secret)));
  }
  // From here on peers_ does not change, so that the workers may read it.
  for (size_t server = 0; server < overview.servers.size(); ++server) {
    work_.add([this, &overview, &mutex, &has_news, &num_open, peer = peers_[server], server] {
      const Result<ServerDescription> found = description_of(*peer);
      const std::lock_guard lock(mutex);
      add_server(server, overview.servers[server], found);
      --num_open;
      has_news.notify_all();
    });
  }
  std::unique_lock lock(mutex);
  has_news.wait(lock, [&] { return num_open == 0; });
}

void Store::add_server(size_t server, const ServerRecord& record,
                       const Result<ServerDescription>& found) {
  std::string why = why_not(found, file_, record);
  if (why.empty()) {
    targets_[server] = std::make_unique<RemoteChunks>(
        peers_[server], RemoteChunks::Fence{file_.id, record.incarnation, maintainer_});
    log_servers_ = found->log_servers;
  } else if (found.ok() && serves_new_disk(*found, file_, record)) {
    new_disks_.push_back({server, *found});
  }
  why_unusable_[server] = std::move(why);
}

bool Store::has_new_disk(int server) const {
  return std::ranges::count(new_disks_, size_t(server), &NewDisk::server) > 0;
}

Status Store::take_in_new_disks() {
  TRIREME_TRY(overview, overview());
  for (const NewDisk& disk : std::exchange(new_disks_, {})) {
    const ServerRecord& record = overview.servers[disk.server];
    if (record.state == ServerState::Drained && !options_.takes_new_disks) continue;
    const Status status = take_in_new_disk(disk, record);
    if (!status.ok()) why_unusable_[disk.server] = status.error().message;
  }
  return Done{};
}

// The server stores the number of its disk before the metadata do. After a crash between the two,
// the next scrub tells the metadata again. A server that has kept metadata has lost its votes with
// the old disk, so it keeps none on the new one.
Status Store::take_in_new_disk(const NewDisk& disk, ServerRecord record) {
  ++record.incarnation;
  record.capacity_bytes = disk.description.free_bytes;
  if (options_.takes_new_disks) record.state = ServerState::Active;
  ServerDescription assigned = disk.description;
  assigned.identity = {.store = file_.id,
                       .store_name = file_.name,
                       .server = record.name,
                       .incarnation = record.incarnation};
  assigned.log_servers = log_servers_without(log_servers_, record.address);
  if (assigned.log_servers.empty()) return damaged("no server that keeps the metadata is known");
  if (disk.description.identity.store == 0) {
    TRIREME_TRY(done, peers_[disk.server]->ask(
                          {.op = StoreOp::Assign, .text = pack_description(assigned)}, kAssignS));
    static_cast<void>(done);
  }
  MetadataCommand change{.kind = CommandKind::Server};
  change.servers.push_back(record);
  change.server_index = int32_t(disk.server);
  TRIREME_TRY_DONE(this->change(std::move(change)));
  targets_[disk.server] = std::make_unique<RemoteChunks>(
      peers_[disk.server], RemoteChunks::Fence{file_.id, record.incarnation, maintainer_});
  why_unusable_[disk.server].clear();
  return Done{};
}

}  // namespace trireme
