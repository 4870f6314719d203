// Copies of the metadata that are damaged, missing or old: status names them, a scrub writes them
// again.

#include <gtest/gtest.h>

#include "base/file.h"
#include "store/store_fixture.h"
#include "store/store_status.h"

namespace trireme {
namespace {

class MetadataCopies : public testing::Test {
 protected:
  MetadataCopies() {
    auto store = test_.open();
    for (const char* path : {"a", "b", "c"}) {
      EXPECT_TRUE(put_files(**store, {test_.made(path, random_bytes(1, 3000))}).ok());
    }
  }
  std::string path_of(int folder, const std::string& name) const {
    return test_.file.dirs[size_t(folder)] + "/" + name;
  }
  void flip(const std::string& path, size_t at) const {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(std::streamoff(at));
    const char old = char(file.get());
    file.seekp(std::streamoff(at));
    file.put(char(old ^ 0x10));
  }
  void expect_problems(const std::vector<std::string>& paths) const {
    auto store = test_.open_for_reading();
    ASSERT_TRUE(store.ok()) << store.error().message;
    const auto health = health_of(**store);
    ASSERT_TRUE(health.ok()) << health.error().message;
    EXPECT_EQ(word_of(*health), paths.empty() ? "healthy" : "degraded");
    std::vector<std::string> found;
    for (const ServerHealth& server : health->servers) {
      if (!server.metadata_problem.empty()) found.push_back(server.metadata_problem);
    }
    ASSERT_EQ(found.size(), paths.size());
    for (size_t problem = 0; problem < paths.size(); ++problem) {
      EXPECT_EQ(found[problem].find(paths[problem] + ":"), 0u) << found[problem];
    }
  }
  int64_t num_mended() const {
    auto store = test_.open();
    const auto totals = scrub_store(**store);
    EXPECT_TRUE(totals.ok()) << totals.error().message;
    return totals->num_mended_metadata;
  }

  const TestStore test_{{4, 2}};
};

TEST_F(MetadataCopies, AFlippedByteIsNamedByStatusAndMendedByAScrub) {
  expect_problems({});
  EXPECT_EQ(num_mended(), 0);
  for (const char* name : {"metadata.log", "metadata.term"}) {
    const std::string path = path_of(1, name);
    const auto bytes = size_t(std::filesystem::file_size(path));
    for (size_t at = 0; at < bytes; at += bytes / 20 + 1) {
      flip(path, at);
      expect_problems({path});
      EXPECT_EQ(num_mended(), 1) << path << " byte " << at;
      expect_problems({});
    }
  }
}

// Without the first scrub, too few copies would be left.
TEST_F(MetadataCopies, AsManyAsTheCodeBearsMayBeDamagedAgainAfterAScrub) {
  for (const int first : {0, 2, 4}) {
    const std::string flipped = path_of(first, "metadata.log");
    const std::string removed = path_of(first + 1, "metadata.log");
    flip(flipped, 100);
    std::filesystem::remove(removed);
    expect_problems({flipped, removed});
    EXPECT_EQ(num_mended(), 2);
    expect_problems({});
  }
  auto store = test_.open_for_reading();
  EXPECT_EQ(content_of(**store, "b").value(), random_bytes(1, 3000));
}

TEST_F(MetadataCopies, ACopyThatMissedCommandsIsOld) {
  test_.lose(3);
  {
    auto store = test_.open();
    ASSERT_TRUE(put_files(**store, {test_.made("d", "text")}).ok());
  }
  std::filesystem::rename(test_.file.dirs[3] + "-lost", test_.file.dirs[3]);
  {
    auto store = test_.open_for_reading();
    const auto health = health_of(**store);
    EXPECT_NE(health->servers[3].metadata_problem.find("were written"), std::string::npos);
  }
  EXPECT_EQ(num_mended(), 1);
  expect_problems({});
}

// Without store.json nobody knows whose the folder is, except by what is in it.
TEST_F(MetadataCopies, ADamagedIdentityIsNamedByStatusAndWrittenAgainByAScrub) {
  const std::string path = path_of(1, "store.json");
  std::string old = read_text_file(path).value();
  const auto scrub = [&]() -> int64_t {
    StoreOptions maintaining = test_.options;
    maintaining.access = StoreAccess::Maintain;
    auto store = Store::open(test_.file, maintaining);
    EXPECT_TRUE(store.ok()) << store.error().message;
    const auto totals = scrub_store(**store);
    EXPECT_TRUE(totals.ok()) << totals.error().message;
    return totals->num_mended_metadata;
  };
  for (size_t at = 0; at < old.size(); at += 9) {
    flip(path, at);
    {
      auto store = test_.open_for_reading();
      const auto health = health_of(**store);
      EXPECT_EQ(word_of(*health), "degraded");
      EXPECT_EQ(health->servers[1].why_unusable.find(path), 0u);
    }
    EXPECT_EQ(scrub(), 1) << at;
    expect_problems({});
    EXPECT_EQ(read_text_file(path).value(), old);
  }
  std::filesystem::remove(path);
  EXPECT_EQ(scrub(), 1);
  expect_problems({});
}

TEST_F(MetadataCopies, AFolderWhoseContentsAreOfAnotherServerOrStoreGetsNoIdentity) {
  StoreOptions maintaining = test_.options;
  maintaining.access = StoreAccess::Maintain;
  const auto is_usable = [&](int folder) {
    auto store = Store::open(test_.file, maintaining);
    return store.ok() && (*store)->usable()[size_t(folder)];
  };
  // The contents of folder 2 in the place of folder 1.
  test_.lose(1);
  std::filesystem::copy(test_.file.dirs[2], test_.file.dirs[1],
                        std::filesystem::copy_options::recursive);
  std::filesystem::remove(path_of(1, "store.json"));
  EXPECT_FALSE(is_usable(1));
  test_.bring_back(1);
  StoreFile other = test_.file;
  other.id = 0x999;
  for (std::string& folder : other.dirs) folder += "-other";
  ASSERT_TRUE(Store::create(other, {}, test_.options).ok());
  test_.lose(1);
  std::filesystem::rename(other.dirs[1], test_.file.dirs[1]);
  flip(path_of(1, "store.json"), 20);
  EXPECT_FALSE(is_usable(1));
  test_.bring_back(1);
  EXPECT_TRUE(is_usable(1));
}

// The copy is damaged while a process writes to the store.
TEST_F(MetadataCopies, AScrubMendsACopyBehindItsOwnWrites) {
  auto store = test_.open();
  ASSERT_TRUE(put_files(**store, {test_.made("d", "text")}).ok());
  flip(path_of(2, "metadata.log"), 300);
  EXPECT_EQ(scrub_store(**store)->num_mended_metadata, 1);
  ASSERT_TRUE(put_files(**store, {test_.made("e", "more")}).ok());
  store->reset();
  expect_problems({});
  for (const int folder : {0, 1}) std::filesystem::remove(path_of(folder, "metadata.log"));
  auto again = test_.open_for_reading();
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(content_of(**again, "e").value(), "more");
}

}  // namespace
}  // namespace trireme
