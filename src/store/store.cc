#include "store/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "comm/tcp/socket.h"
#include "store/chunk_folder.h"
#include "store/folder_identity.h"
#include "store/folder_undo.h"
#include "store/mirrored_log.h"
#include "store/mount_point.h"

namespace trireme {
namespace {

// After so long, a server that fails to remove chunks is left to a later collection.
constexpr double kGarbageS = 10.0;

std::string server_name(size_t server) { return "s" + std::to_string(server); }

// The copies of any n - m folders are enough to read the metadata, and m + 1 copies to write them.
MirroredLog::Rules rules_of(const StoreFile& file) {
  const int num_folders = int(file.dirs.size());
  return {.least_written = file.code.num_parity + 1,
          .least_read = num_folders - file.code.num_parity};
}

Error another_store(const std::string& folder, const FolderIdentity& identity,
                    const StoreFile& file) {
  return usage(fmt::format(
      "{} belongs to another store ({} of {}), not to {}; give this store its own folder back, or "
      "an empty one",
      folder, identity.server, identity.store_name, file.name));
}

Result<FileLock> wait_for_lock(const std::string& path, double seconds) {
  const Deadline deadline = Deadline::after(seconds);
  for (;;) {
    Result<FileLock> lock = FileLock::take(path);
    if (lock.ok() || deadline.left_ms() == 0) return lock;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

Store::Store(const StoreFile& file, const StoreOptions& options, std::vector<std::string> addresses)
    : file_(file),
      options_(options),
      why_unusable_(addresses.size()),
      addresses_(std::move(addresses)),
      work_(int(std::clamp<size_t>(addresses_.size(), 2, 16))) {
  targets_.resize(addresses_.size());
  for (size_t server = 0; server < addresses_.size(); ++server) {
    names_.push_back(server_name(server));
  }
}

Store::~Store() {
  lease_.reset();  // it asks the peers
  for (const auto& peer : peers_) peer->stop();
}

Status Store::create(const StoreFile& file, const std::vector<std::string>& domains,
                     const StoreOptions& options) {
  if (int(file.dirs.size()) < file.code.num_chunks()) {
    return usage(
        fmt::format("the code {} needs at least {} folders, and {} were given; name more "
                    "with --dirs, or take a smaller code",
                    text_of(file.code), file.code.num_chunks(), file.dirs.size()));
  }
  FolderUndo undo(file.id);
  MetadataCommand create{.kind = CommandKind::Create};
  create.number = drawn_number();
  create.facts.id = file.id;
  create.facts.name = file.name;
  create.facts.code = file.code;
  create.facts.most_chunk_bytes = options.most_chunk_bytes;
  for (size_t server = 0; server < file.dirs.size(); ++server) {
    const std::string& folder = file.dirs[server];
    TRIREME_TRY_DONE(undo.make_folder(folder));
    create.servers.push_back({.name = server_name(server),
                              .address = folder,
                              .domain = domains.empty() ? server_name(server) : domains[server],
                              .capacity_bytes = free_bytes_of(folder)});
  }
  // A folder that is named twice is not empty the second time.
  for (size_t server = 0; server < file.dirs.size(); ++server) {
    if (!is_empty_folder(file.dirs[server])) return usage(file.dirs[server] + " is named twice");
    TRIREME_TRY_DONE(
        write_identity(file.dirs[server],
                       {.store = file.id, .store_name = file.name, .server = server_name(server)},
                       options.faults));
  }
  TRIREME_TRY_DONE(MirroredLog::create(file.dirs, options.faults));
  Metadata metadata;
  TRIREME_TRY(log, MirroredLog::open(file.dirs, rules_of(file), metadata, options.faults));
  TRIREME_TRY(answer, log->apply(pack_command(create), Deadline::after(options.metadata_s)));
  TRIREME_TRY(tokens, unpack_tokens(answer.bytes));
  static_cast<void>(tokens);
  undo.keep();
  return Done{};
}

Result<std::unique_ptr<Store>> Store::open(const StoreFile& file, const StoreOptions& options) {
  if (!file.servers.empty()) return open_shared(file, options);
  std::unique_ptr<Store> store(new Store(file, options, file.dirs));
  const bool writes = options.access != StoreAccess::Read;
  if (writes && !options.lock_path.empty()) {
    TRIREME_TRY(lock, wait_for_lock(options.lock_path, options.lock_wait_s));
    store->lock_.emplace(std::move(lock));
  }
  TRIREME_TRY_DONE(store->open_log());
  TRIREME_TRY(overview, store->overview());
  TRIREME_TRY_DONE(store->open_targets(overview));
  if (!writes) return store;
  if (options.access == StoreAccess::Maintain) {
    TRIREME_TRY(num_mended, store->mend_identities(overview));
    if (num_mended > 0) {  // its folders can be used now
      store.reset();
      TRIREME_TRY(mended, open(file, options));
      mended->num_mended_identities_ = num_mended;
      return std::move(mended);
    }
  }
  TRIREME_TRY_DONE(store->take_in_replaced(overview));
  // Their processes have ended, because this one has the lock.
  MetadataCommand abort{.kind = CommandKind::Abort};
  abort.tokens = overview.open_tokens;
  if (overview.maintainer != 0) abort.tokens.push_back(overview.maintainer);
  if (!abort.tokens.empty()) {
    TRIREME_TRY_DONE(store->change(std::move(abort)));
  }
  return store;
}

std::string Store::why_no_new_disk(size_t server) const {
  if (file_.mounts.empty() || options_.takes_new_disks) return "";
  const std::string& folder = file_.dirs[server];
  // Both paths are the folder or lie above it, so the longer one is the deeper one.
  if (mount_point_of(folder).size() >= file_.mounts[server].size()) return "";
  return fmt::format(
      "{} is empty, and no disk is mounted at {}: mount it; or, if the folder is to be used "
      "instead, run: trireme store scrub --new-disk {}",
      folder, file_.mounts[server], file_.name);
}

Status Store::open_log() {
  std::vector<std::string> folders = file_.dirs;
  std::string lost;
  for (size_t server = 0; server < folders.size(); ++server) {
    std::string& folder = folders[server];
    if (is_empty_folder(folder) && why_no_new_disk(server).empty()) continue;
    const Result<FolderIdentity> identity = read_identity(folder);
    if (identity.ok() && (identity->store != file_.id || identity->server != names_[server])) {
      return another_store(folder, *identity, file_);
    }
    if (identity.ok()) continue;
    lost += fmt::format("{}{} ({})", lost.empty() ? "" : ", ", names_[server], folder);
    folder.clear();
  }
  Result<std::unique_ptr<MirroredLog>> log =
      MirroredLog::open(folders, rules_of(file_), metadata_, options_.faults);
  if (!log.ok()) {
    return lost.empty() ? log.error()
                        : damaged(fmt::format("{}; lost: {}; the code {} bears the loss of {}, so "
                                              "give one of them back",
                                              log.error().message, lost, text_of(code()),
                                              code().num_parity));
  }
  log_ = std::move(*log);
  return Done{};
}

Status Store::open_targets(const Overview& overview) {
  if (overview.facts.id != file_.id || overview.servers.size() != file_.dirs.size()) {
    return damaged(
        fmt::format("the folders of store {} have the metadata of another store; correct its dirs",
                    file_.name));
  }
  for (size_t server = 0; server < file_.dirs.size(); ++server) {
    const std::string& folder = file_.dirs[server];
    std::string& why = why_unusable_[server];
    const uint64_t incarnation = overview.servers[server].incarnation;
    if (is_empty_folder(folder)) {
      why = why_no_new_disk(server);
      const bool is_drained = overview.servers[server].state == ServerState::Drained;
      if (why.empty() && is_drained && !options_.takes_new_disks) {
        why = folder + " is empty, and its server is drained";
        static_cast<MirroredLog&>(*log_).leave_out(server);
      }
      if (!why.empty()) continue;
      replaced_.push_back(int(server));
      why = folder + " is empty";
      continue;
    }
    const Result<FolderIdentity> identity = read_identity(folder);
    if (!identity.ok()) {
      why = identity.error().message;
    } else if (identity->incarnation == incarnation + 1) {
      replaced_.push_back(int(server));
      why = folder + " is a new disk";
    } else if (identity->incarnation != incarnation) {
      why = fmt::format(
          "{} is of an old epoch: disk {} was replaced by disk {}; empty the folder, "
          "and it is taken as a new disk",
          folder, identity->incarnation, incarnation);
    } else {
      targets_[server] = std::make_unique<ChunkFolder>(folder, file_.id, options_.faults);
    }
  }
  return Done{};
}

Status Store::take_in_replaced(const Overview& overview) {
  const auto new_record = [&](int server) {
    ServerRecord record = overview.servers[size_t(server)];
    ++record.incarnation;
    if (options_.takes_new_disks) record.state = ServerState::Active;
    record.capacity_bytes = free_bytes_of(file_.dirs[size_t(server)]);
    return record;
  };
  // All new folders name their numbers before the metadata do, and before a part of the metadata is
  // written to any of them. After a crash between both, the next opening takes the disks in again.
  std::vector<int> named;
  for (const int server : replaced_) {
    const std::string& folder = file_.dirs[size_t(server)];
    const ServerRecord record = new_record(server);
    const Status status = write_identity(folder,
                                         {.store = file_.id,
                                          .store_name = file_.name,
                                          .server = record.name,
                                          .incarnation = record.incarnation},
                                         options_.faults);
    if (!status.ok()) {
      why_unusable_[size_t(server)] = status.error().message;
      continue;
    }
    named.push_back(server);
  }
  for (const int server : named) {
    const std::string& folder = file_.dirs[size_t(server)];
    MetadataCommand change{.kind = CommandKind::Server};
    change.servers.push_back(new_record(server));
    change.server_index = server;
    TRIREME_TRY_DONE(this->change(std::move(change)));
    targets_[size_t(server)] = std::make_unique<ChunkFolder>(folder, file_.id, options_.faults);
    why_unusable_[size_t(server)].clear();
  }
  replaced_.clear();
  return Done{};
}

Result<std::vector<uint64_t>> Store::command(MetadataCommand command,
                                             std::optional<double> deadline_s) {
  if (options_.access == StoreAccess::Read) return usage("the store is open for reading");
  command.number = drawn_number();
  if (maintains(command.kind) && is_shared()) command.tokens = {maintainer_};
  const Deadline deadline = Deadline::after(deadline_s.value_or(options_.metadata_s));
  TRIREME_TRY(answer, log_->apply(pack_command(command), deadline));
  return unpack_tokens(answer.bytes);
}

Status Store::change(MetadataCommand command, std::optional<double> deadline_s) {
  Result<std::vector<uint64_t>> tokens = this->command(std::move(command), deadline_s);
  if (!tokens.ok()) return tokens.error();
  return Done{};
}

Result<Overview> Store::overview(int first_server) {
  const MetadataQuestion question{.kind = QuestionKind::Overview, .number = uint64_t(first_server)};
  TRIREME_TRY(answer, log_->query(pack_question(question), Deadline::after(options_.metadata_s)));
  return unpack_overview(answer.bytes);
}

Result<FileAnswer> Store::ask(const MetadataQuestion& question) {
  TRIREME_TRY(answer, log_->query(pack_question(question), Deadline::after(options_.metadata_s)));
  return unpack_files(answer.bytes);
}

Result<std::vector<WrittenFile>> Store::files(const std::string& path) {
  std::vector<WrittenFile> files;
  MetadataQuestion question{.kind = QuestionKind::Files, .text = path};
  for (;;) {
    TRIREME_TRY(answer, ask(question));
    if (answer.files.empty()) return files;
    question.after = answer.files.back().path;
    std::ranges::move(answer.files, std::back_inserter(files));
  }
}

std::vector<bool> Store::usable() const {
  std::vector<bool> is_usable;
  for (const auto& target : targets_) is_usable.push_back(target != nullptr);
  return is_usable;
}

std::string Store::describe(int server) const {
  if (server == kNoServer) return "nowhere";
  const std::string& why = why_unusable_[size_t(server)];
  const std::string& name = names_[size_t(server)];
  return why.empty() ? fmt::format("{} ({})", name, addresses_[size_t(server)])
                     : fmt::format("{} ({})", name, why);
}

Status Store::collect_garbage() {
  if (is_shared() && maintainer_ == 0) return Done{};
  TRIREME_TRY(overview, overview());
  if (overview.garbage.empty()) return Done{};
  for (int server = 0; server < num_servers(); ++server) {
    if (target(server) != nullptr) TRIREME_TRY_DONE(collect_garbage_of(server));
  }
  return Done{};
}

Status Store::collect_garbage_of(int server) {
  const Deadline patience = Deadline::after(kGarbageS);
  for (bool is_over = false; !is_over;) {
    TRIREME_TRY(overview, overview(server));
    MetadataCommand collect{.kind = CommandKind::Collect};
    for (const Garbage& garbage : overview.garbage) {
      if (garbage.server != server || is_over) break;
      if (target(server)->remove({garbage.block, garbage.chunk}).ok()) {
        collect.garbage.push_back(garbage);
      } else {
        is_over = patience.left_ms() == 0;  // each failure may take until a deadline
      }
    }
    if (collect.garbage.empty()) return Done{};
    TRIREME_TRY_DONE(change(std::move(collect)));
  }
  return Done{};
}

}  // namespace trireme
