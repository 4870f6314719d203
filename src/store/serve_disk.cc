#include "store/serve_disk.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "store/mount_point.h"

namespace trireme {
namespace {

constexpr std::chrono::milliseconds kLook(50);
constexpr int kLooksOfDisk = 10;  // the disk is looked at once in so many looks

// What a server remembers of its store while its disk is gone.
class LostDisk {
 public:
  LostDisk(const StoreServerOptions& options, const ServerDescription& before, std::string mount)
      : options_(options), before_(before), mount_(std::move(mount)) {
    options_.join.clear();
    options_.listen = before.address;
    options_.log_listen = before.log_address;
  }

  // Returns null, and tells why, if there is no disk to serve yet.
  std::unique_ptr<StoreServer> try_to_serve() {
    const std::string& folder = options_.folder;
    std::error_code ignored;
    if (!std::filesystem::is_directory(folder, ignored)) return nullptr;
    if (std::filesystem::exists(folder + "/store.json", ignored)) return open("");
    // Both paths are the folder or lie above it, so the longer one is the deeper one.
    if (mount_point_of(folder).size() < mount_.size()) {
      tell(fmt::format("{}: no disk is mounted at {}; mount it", folder, mount_));
      return nullptr;
    }
    for (const LogServer& server : log_servers_without(before_.log_servers, before_.address)) {
      if (std::unique_ptr<StoreServer> joined = open(server.address)) return joined;
    }
    return nullptr;
  }

 private:
  std::unique_ptr<StoreServer> open(const std::string& join) {
    StoreServerOptions options = options_;
    options.join = join;
    Result<std::unique_ptr<StoreServer>> server = StoreServer::open(std::move(options));
    if (server.ok()) return std::move(*server);
    tell(server.error().message);
    return nullptr;
  }

  // The same sentence once.
  void tell(const std::string& sentence) {
    if (sentence != told_ && options_.log) options_.log(sentence);
    told_ = sentence;
  }

  StoreServerOptions options_;
  const ServerDescription before_;
  const std::string mount_;
  std::string told_;
};

}  // namespace

Status serve_disk(const StoreServerOptions& options, const std::function<bool()>& is_over,
                  const std::function<void(const std::string& address)>& on_serving) {
  TRIREME_TRY(server, StoreServer::open(options));
  on_serving(server->address());
  const std::string mount = mount_point_of(options.folder);
  for (int look = 1; !is_over(); ++look) {
    std::this_thread::sleep_for(kLook);
    if (look % kLooksOfDisk != 0 || !server->has_lost_disk()) continue;
    if (options.log) {
      options.log(
          fmt::format("{}: the disk is gone; waiting for it, or for an empty one", options.folder));
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
