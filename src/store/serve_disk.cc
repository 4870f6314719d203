#include "store/serve_disk.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include "base/units.h"
#include "store/shared_store.h"
#include "store/store_status.h"

namespace trireme {
namespace {

constexpr std::chrono::milliseconds kLook(50);
constexpr int kLooksOfDisk = 10;  // the disk is looked at once in so many looks
constexpr double kBetweenAttemptsS = 2.0;

// Remembers a server while its disk is gone, and serves again once there is one.
class LostDisk {
 public:
  LostDisk(const StoreServerOptions& options, const ServerDescription& before, std::string mount)
      : options_(options), join_(options.join), before_(before), mount_(std::move(mount)) {
    options_.join.clear();
    options_.listen = before.address;
    options_.log_listen = before.log_address;
  }

  // Returns null, and tells why, if there is no disk to serve yet.
  std::unique_ptr<StoreServer> try_to_serve() {
    const std::string& folder = options_.folder;
    std::error_code ignored;
    if (!std::filesystem::is_directory(folder, ignored)) return nullptr;
    if (std::filesystem::exists(folder + "/store.json", ignored)) return open();
    // Both paths are the folder or lie above it, so the longer one is the deeper one.
    if (options_.mount_of(folder).size() < mount_.size()) {
      tell(fmt::format("{}: no disk is mounted at {}; mount it", folder, mount_));
      return nullptr;
    }
    // The old disk may still be needed. So the metadata are not told of the empty one yet.
    std::unique_ptr<StoreServer> server = open();
    if (server != nullptr) {
      tell(folder + (join_.empty()
                         ? ": is empty, so it waits for a scrub to take it in"
                         : ": is empty, and is taken in once nothing needs the old disk"));
    }
    return server;
  }

  // True if the empty disk that is served now may take the place of the old one.
  bool may_take_in(StoreServer& server) {
    if (join_.empty() || server.description().identity.store != 0 || patience_.left_ms() > 0) {
      return false;
    }
    patience_ = Deadline::after(kBetweenAttemptsS);
    // The folder below the mount point of an unmounted disk is empty, too.
    if (options_.mount_of(options_.folder).size() < mount_.size()) {
      tell(fmt::format("{}: no disk is mounted at {}; mount it", options_.folder, mount_));
      return false;
    }
    const Result<std::string> why_not = why_not_yet();
    const std::string& why = why_not.ok() ? *why_not : why_not.error().message;
    if (!why.empty()) tell(fmt::format("{}: is not taken in: {}", options_.folder, why));
    return why.empty();
  }

  // Makes the empty disk the one of this server, after the former server has ended.
  std::unique_ptr<StoreServer> take_in() {
    StoreServerOptions joining = options_;
    joining.join = join_;
    Result<std::unique_ptr<StoreServer>> server = StoreServer::open(joining);
    if (!server.ok()) {
      constexpr double kAfterFailureS = 60.0;
      patience_ = Deadline::after(kAfterFailureS);
      tell(server.error().message);
      return nullptr;
    }
    tell(options_.folder + ": is taken in as a new disk; a repair or a scrub fills it");
    return std::move(*server);
  }

 private:
  // Returns why the old disk must be kept, or "".
  Result<std::string> why_not_yet() {
    TRIREME_TRY(file, find_shared_store(join_, options_.secret));
    if (file.id != before_.identity.store) {
      return fmt::format(
          "{} serves the store {}, and the old disk was of {}; name a server of {} "
          "with --join",
          join_, file.name, before_.identity.store_name, before_.identity.store_name);
    }
    TRIREME_TRY(store, Store::open(file, {.secret = options_.secret}));
    TRIREME_TRY(health, health_of(*store));
    const auto& servers = health.overview.servers;
    const auto mine = std::ranges::find(servers, before_.identity.server, &ServerRecord::name);
    if (mine != servers.end() && mine->state == ServerState::Drained) {
      return std::string("its server is drained; run: trireme store scrub --new-disk ") + file.name;
    }
    if (health.bytes_lost > 0) {
      return fmt::format(
          "{} of files cannot be read without the old disk; mount it, or start the "
          "servers that are lost, or give them up: trireme store scrub --new-disk {}",
          format_bytes(health.bytes_lost), file.name);
    }
    return std::string();
  }

  std::unique_ptr<StoreServer> open() {
    Result<std::unique_ptr<StoreServer>> server = StoreServer::open(options_);
    if (server.ok()) return std::move(*server);
    tell(server.error().message);
    return nullptr;
  }

  // Logs a sentence once, although each attempt may find the same reason.
  void tell(const std::string& sentence) {
    if (sentence != told_ && options_.log) options_.log(sentence);
    told_ = sentence;
  }

  StoreServerOptions options_;
  const std::string join_;
  const ServerDescription before_;
  const std::string mount_;
  Deadline patience_ = Deadline::after(0.0);  // until the next attempt to take the disk in
  std::string told_;
};

}  // namespace

Status serve_disk(const StoreServerOptions& options, const std::function<bool()>& is_over,
                  const std::function<void(const std::string& address)>& on_serving) {
  TRIREME_TRY(server, StoreServer::open(options));
  on_serving(server->address());
  const std::string mount = options.mount_of(options.folder);
  std::optional<LostDisk> lost;
  for (int look = 1; !is_over(); ++look) {
    std::this_thread::sleep_for(kLook);
    if (look % kLooksOfDisk != 0) continue;
    const Status disk = server->check_disk();
    const bool takes_in = disk.ok() && lost && lost->may_take_in(*server);
    if (disk.ok() && !takes_in) continue;
    if (!disk.ok() && options.log) {
      options.log(
          fmt::format("{}; serving {} again once it has a disk, the old one or an empty one",
                      disk.error().message, options.folder));
    }
    const ServerDescription before = server->description();
    if (before.identity.store != 0 || !lost) lost.emplace(options, before, mount);
    server.reset();
    if (takes_in) server = lost->take_in();
    while (server == nullptr) {
      if (is_over()) return Done{};
      std::this_thread::sleep_for(kLook * kLooksOfDisk);
      server = lost->try_to_serve();
    }
    on_serving(server->address());
  }
  return Done{};
}

}  // namespace trireme
