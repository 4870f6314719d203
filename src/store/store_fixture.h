#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/hash.h"
#include "store/get_file.h"
#include "store/put_files.h"
#include "store/repair.h"
#include "store/store.h"

namespace trireme {

inline std::string random_bytes(uint64_t seed, size_t bytes) {
  std::mt19937_64 random(seed);
  std::string text(bytes, '\0');
  for (char& c : text) c = char(random());
  return text;
}

// A store in folders of their own, which lie in memory where the machine has such a file system.
class TestStore {
 public:
  explicit TestStore(StoreCode code, int num_folders = 0, uint32_t most_chunk_bytes = 4096,
                     DiskFaults* faults = nullptr) {
    static int count = 0;
    const std::string memory = std::filesystem::exists("/dev/shm")
                                   ? "/dev/shm"
                                   : std::filesystem::temp_directory_path().string();
    root = memory + "/trireme-store-" + std::to_string(getpid()) + "-" + std::to_string(count++);
    std::filesystem::create_directories(root);
    file = {.id = 0x1234, .name = "test", .code = code};
    for (int folder = 0; folder < std::max(num_folders, code.num_chunks()); ++folder) {
      file.dirs.push_back(root + "/d" + std::to_string(folder));
    }
    options = {.access = StoreAccess::Write,
               .faults = faults,
               .most_chunk_bytes = most_chunk_bytes,
               .straggler_s = 0.5};
    created = Store::create(file, {}, options);
  }
  ~TestStore() { std::filesystem::remove_all(root); }
  TestStore(const TestStore&) = delete;

  Result<std::unique_ptr<Store>> open() const { return Store::open(file, options); }
  Result<std::unique_ptr<Store>> open_for_reading() const {
    StoreOptions reading = options;
    reading.access = StoreAccess::Read;
    reading.faults = nullptr;
    return Store::open(file, reading);
  }

  // Writes the content to a file outside the store and names it for put_files.
  FileToPut made(const std::string& path, const std::string& content) const {
    const std::string from = root + "/source-" + hex64(hash64(path));
    std::ofstream(from, std::ios::binary) << content;
    return {from, path};
  }

  // Hides a folder, as if its disk were gone, and brings it back.
  void lose(int folder) const {
    std::filesystem::rename(file.dirs[size_t(folder)], file.dirs[size_t(folder)] + "-lost");
  }
  void bring_back(int folder) const {
    std::filesystem::remove_all(file.dirs[size_t(folder)]);
    std::filesystem::rename(file.dirs[size_t(folder)] + "-lost", file.dirs[size_t(folder)]);
  }
  // A new disk takes the place of the lost one, which is gone with what was on it.
  void replace_with_empty(int folder) const {
    std::filesystem::remove_all(file.dirs[size_t(folder)]);
    std::filesystem::remove_all(file.dirs[size_t(folder)] + "-lost");
    std::filesystem::create_directories(file.dirs[size_t(folder)]);
  }

  std::string root;
  StoreFile file;
  StoreOptions options;
  Status created = Done{};
};

inline Result<std::string> content_of(Store& store, const std::string& path) {
  std::string content;
  Result<GetTotals> totals = get_file(store, path, [&](std::span<const std::byte> bytes) -> Status {
    content.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return Done{};
  });
  if (!totals.ok()) return totals.error();
  return content;
}

}  // namespace trireme
