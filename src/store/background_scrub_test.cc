// What a server does with chunks of its own that its disk does not read.

#include "store/background_scrub.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "store/store_fixture.h"

namespace trireme {
namespace {

class DiskThatReadsNothing : public DiskFaults {
 public:
  Status before(DiskCall call, const std::string& path, size_t&) override {
    if (call != DiskCall::Read) return Done{};
    return damaged(path + ": cannot read: Input/output error");
  }
};

TEST(BackgroundScrub, NamesAChunkThatTheDiskDoesNotReadAndDoesNotCountItAsLost) {
  const TestStore test({2, 1});
  DiskThatReadsNothing disk;
  const auto chunks = std::make_shared<ChunkFolder>(test.file.dirs[0], test.file.id, &disk);
  const std::string content = random_bytes(1, 1000);
  const auto bytes = std::as_bytes(std::span(content));
  ASSERT_TRUE(chunks->write({1, 0}, bytes, hash64(bytes)).ok());
  std::mutex mutex;
  std::vector<std::string> lines;
  int num_reported = 0;
  const auto num_lines = [&] {
    const std::lock_guard lock(mutex);
    return lines.size();
  };
  {
    BackgroundScrub scrub(
        {.disk_share = 0.5, .rest_s = 0.01}, [&] { return chunks; },
        [&](ChunkName) -> Status {
          ++num_reported;
          return Done{};
        },
        {},
        [&](const std::string& line) {
          const std::lock_guard lock(mutex);
          lines.push_back(line);
        });
    const Deadline deadline = Deadline::after(30);
    while (num_lines() == 0 && deadline.left_ms() > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines[0], chunks->path_of({1, 0}) + ": cannot read: Input/output error");
  EXPECT_EQ(num_reported, 0);
}

}  // namespace
}  // namespace trireme
