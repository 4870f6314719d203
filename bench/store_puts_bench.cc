// Files of 1,000 bytes put into a store one by one, each acknowledged before its writer puts the
// next one: how many in a second, by number of writers, as a table in Markdown.
//   store_puts_bench FOLDER [SECONDS]
// It makes six folders below FOLDER, first for a store in folders, whose writers are threads that
// share the open store, then for a store of six servers in this process, whose writers have a store
// of their own each, as clients on other hosts have. The last column is what the disk does: six
// files side by side, each written, synced and renamed, with a sync of its folder.

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "store/disk_file.h"
#include "store/put_files.h"
#include "store/shared_store.h"
#include "store/store_server.h"

namespace trireme {
namespace {

constexpr int kFolders = 6;
constexpr const char* kSecret = "a secret of this benchmark";

void expect(const Status& status) {
  TRIREME_CHECK(status.ok(), status.ok() ? "" : status.error().message);
}

// Calls `put` on so many threads until the time is over, and returns the calls in a second.
double rate_of(int writers, double seconds,
               const std::function<void(int writer, int number)>& put) {
  std::atomic<bool> is_over = false;
  std::atomic<int64_t> count = 0;
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (int writer = 0; writer < writers; ++writer) {
    threads.emplace_back([&, writer] {
      for (int number = 0; !is_over; ++number) {
        put(writer, number);
        ++count;
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return double(count) / took.count();
}

class Bench {
 public:
  Bench(std::string root, double seconds) : root_(std::move(root)), seconds_(seconds) {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
    std::ofstream(root_ + "/small") << std::string(1000, 'x');
    file_ = {.id = 0x77, .name = "bench", .code = {4, 2}};
  }
  ~Bench() { std::filesystem::remove_all(root_); }
  Bench(const Bench&) = delete;

  void run() {
    std::vector<double> plain;
    for (const int writers : kWriters) plain.push_back(plain_rate(writers));
    fmt::print("| writers | folders, puts/s | servers, puts/s | plain files, groups of six/s |\n");
    fmt::print("|---|---|---|---|\n");
    std::vector<double> folders = in_folders();
    std::vector<double> servers = in_servers();
    for (size_t row = 0; row < std::size(kWriters); ++row) {
      fmt::print("| {} | {:.0f} | {:.0f} | {:.0f} |\n", kWriters[row], folders[row], servers[row],
                 plain[row]);
    }
  }

 private:
  static constexpr int kWriters[] = {1, 4, 16, 64};

  FileToPut small(int writer, int number) const {
    return {root_ + "/small", fmt::format("w{}/f{}", writer, number)};
  }

  double plain_rate(int writers) const {
    for (int folder = 0; folder < kFolders; ++folder) {
      std::filesystem::create_directories(fmt::format("{}/plain{}", root_, folder));
    }
    const std::string text(250, 'x');
    return rate_of(writers, seconds_, [&](int writer, int number) {
      std::vector<std::thread> files;
      for (int folder = 0; folder < kFolders; ++folder) {
        files.emplace_back([&, folder] {
          expect(replace_file(fmt::format("{}/plain{}/w{}f{}", root_, folder, writer, number), text,
                              nullptr));
        });
      }
      for (std::thread& file : files) file.join();
    });
  }

  std::vector<double> in_folders() {
    StoreFile file = file_;
    for (int folder = 0; folder < kFolders; ++folder) {
      file.dirs.push_back(fmt::format("{}/d{}", root_, folder));
    }
    const StoreOptions writing{.access = StoreAccess::Write};
    expect(Store::create(file, {}, writing));
    auto store = Store::open(file, writing);
    TRIREME_CHECK(store.ok(), "the store opens");
    std::vector<double> rates;
    for (const int writers : kWriters) {
      rates.push_back(rate_of(writers, seconds_, [&](int writer, int number) {
        TRIREME_CHECK(put_files(**store, {small(writer, number)}).ok(), "a put");
      }));
    }
    return rates;
  }

  std::vector<double> in_servers() {
    std::vector<std::unique_ptr<StoreServer>> servers;
    std::vector<std::string> addresses;
    for (int server = 0; server < kFolders; ++server) {
      const std::string folder = fmt::format("{}/s{}", root_, server);
      std::filesystem::create_directories(folder);
      auto opened = StoreServer::open(
          {.folder = folder, .secret = kSecret, .join = "", .log_listen = "127.0.0.1:0"});
      TRIREME_CHECK(opened.ok(), "a server starts");
      servers.push_back(std::move(*opened));
      addresses.push_back(servers.back()->address());
    }
    StoreFile file = file_;
    const StoreOptions writing{.access = StoreAccess::Write, .secret = kSecret};
    expect(create_shared_store(file, addresses, {}, writing));
    std::vector<double> rates;
    for (const int writers : kWriters) {
      std::vector<std::unique_ptr<Store>> stores;
      for (int writer = 0; writer < writers; ++writer) {
        auto store = Store::open(file, writing);
        TRIREME_CHECK(store.ok(), "the store opens");
        stores.push_back(std::move(*store));
      }
      rates.push_back(rate_of(writers, seconds_, [&](int writer, int number) {
        const auto put = put_files(*stores[size_t(writer)], {small(writer, number)});
        TRIREME_CHECK(put.ok(), put.ok() ? "" : put.error().message);
      }));
    }
    return rates;
  }

  const std::string root_;
  const double seconds_;
  StoreFile file_;
};

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "store_puts_bench FOLDER [SECONDS]\n");
    return 2;
  }
  const double seconds = argc > 2 ? std::atof(argv[2]) : 5.0;
  trireme::Bench(fmt::format("{}/store-puts-{}", argv[1], ::getpid()), seconds).run();
  return 0;
}
