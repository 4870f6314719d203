#include "store/mirrored_log.h"

#include <atomic>

#include "store/store_fixture.h"

namespace trireme {
namespace {

// Calls fail that would write a file of this name in the first few folders.
class FailingFiles : public DiskFaults {
 public:
  Status before(DiskCall call, const std::string& path, size_t&) override {
    const bool writes = call == DiskCall::Create || call == DiskCall::Write;
    for (int folder = 0; writes && folder < num_folders; ++folder) {
      const std::string inside = "/d" + std::to_string(folder) + "/" + name;
      if (path.find(inside) != std::string::npos) return damaged(path + ": no space left");
    }
    return Done{};
  }
  std::string name;
  std::atomic<int> num_folders = 0;
};

// The code bears the loss of one folder, so a command must be in two.
class MirroredLogTest : public testing::Test {
 protected:
  Status begin(Store& store) {
    MetadataCommand begin{.kind = CommandKind::Begin};
    begin.paths.emplace_back("x");
    return store.change(std::move(begin));
  }
  FailingFiles files_;
  const TestStore test_{{2, 1}, 4, 4096, &files_};
};

TEST_F(MirroredLogTest, ACommandInTooFewFoldersIsNotAcknowledged) {
  files_.name = "metadata.log";
  auto store = test_.open();
  ASSERT_TRUE(begin(**store).ok());
  files_.num_folders = 2;
  EXPECT_TRUE(begin(**store).ok());
  files_.num_folders = 3;
  const Status refused = begin(**store);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("1 folders, and 2 are needed"), std::string::npos);
  files_.num_folders = 0;
  EXPECT_FALSE(begin(**store).ok());  // nobody knows whether the command before counts
  store->reset();
  EXPECT_TRUE(test_.open().ok());
}

TEST_F(MirroredLogTest, ATermThatTooFewFoldersPromiseIsNotUsed) {
  files_.name = "metadata.term";
  for (const int num_folders : {2, 3}) {
    files_.num_folders = num_folders;
    auto store = test_.open();  // the second time it writes: it ends the token of the first time
    EXPECT_EQ(store.ok() && begin(**store).ok(), num_folders == 2);
  }
}

// The term may be promised to another process as well, so that two of them would write its entries.
TEST_F(MirroredLogTest, NothingIsWrittenInATermThatTooFewFoldersPromise) {
  const auto logs = [&] {
    std::string all;
    for (const std::string& folder : test_.file.dirs) {
      std::stringstream log;
      log << std::ifstream(folder + "/metadata.log", std::ios::binary).rdbuf();
      all += log.str();
    }
    return all;
  };
  files_.name = "metadata.term";
  files_.num_folders = 3;
  const std::string before = logs();
  auto store = test_.open();
  ASSERT_TRUE(store.ok()) << store.error().message;
  EXPECT_FALSE(begin(**store).ok());
  EXPECT_EQ(logs(), before);
}

}  // namespace
}  // namespace trireme
