#include "store/serve_disk.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <thread>

namespace trireme {
namespace {

constexpr std::chrono::milliseconds kLook(50);
constexpr int kLooksOfDisk = 10;  // the disk is looked at once in so many looks

// Remembers a server while its disk is gone, and serves again once there is one.
class LostDisk {
 public:
  LostDisk(const StoreServerOptions& options, const ServerDescription& before, std::string mount)
      : options_(options), mount_(std::move(mount)) {
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
    // The old disk may still be needed. So the server does not tell the metadata of the empty one,
    // but leaves that to a scrub, which looks at all disks.
    std::unique_ptr<StoreServer> server = open();
    if (server != nullptr) tell(folder + ": is empty, so it waits for a scrub to take it in");
    return server;
  }

 private:
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
  const std::string mount_;
  std::string told_;
};

}  // namespace

Status serve_disk(const StoreServerOptions& options, const std::function<bool()>& is_over,
                  const std::function<void(const std::string& address)>& on_serving) {
  TRIREME_TRY(server, StoreServer::open(options));
  on_serving(server->address());
  const std::string mount = options.mount_of(options.folder);
  for (int look = 1; !is_over(); ++look) {
    std::this_thread::sleep_for(kLook);
    if (look % kLooksOfDisk != 0) continue;
    const Status disk = server->check_disk();
    if (disk.ok()) continue;
    if (options.log) {
      options.log(
          fmt::format("{}; serving {} again once it has a disk, the old one or an empty one",
                      disk.error().message, options.folder));
    }
    LostDisk lost(options, server->description(), mount);
    server.reset();
    while (server == nullptr) {
      if (is_over()) return Done{};
      std::this_thread::sleep_for(kLook * kLooksOfDisk);
      server = lost.try_to_serve();
    }
    on_serving(server->address());
  }
  return Done{};
}

}  // namespace trireme
