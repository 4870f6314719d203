// How far a scrub, a repair or a drain is: the caller hears it, and status shows it.

#include <chrono>
#include <thread>

#include "store/store_upkeep_fixture.h"

namespace trireme {
namespace {

// Looks at the store from outside while the work goes on, as status does.
template <typename Open>
OnProgress watching(std::vector<UpkeepProgress>& heard, UpkeepProgress& shown, const Open& open) {
  return [&heard, &shown, open](const UpkeepProgress& progress) -> Status {
    heard.push_back(progress);
    if (heard.size() == 2) std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    if (heard.size() != 4) return Done{};
    const Deadline deadline = Deadline::after(10);
    while (shown.kind == UpkeepKind::None && deadline.left_ms() > 0) {
      auto store = open();
      if (store.ok()) shown = health_of(**store)->upkeep;
    }
    return Done{};
  };
}

void expect_progress(const std::vector<UpkeepProgress>& heard, const UpkeepProgress& shown,
                     UpkeepKind kind) {
  ASSERT_GE(heard.size(), 4u);
  for (size_t block = 0; block < heard.size(); ++block) {
    if (heard[block].kind != kind) break;
    EXPECT_EQ(heard[block].done, block + 1);
    EXPECT_LE(heard[block].done, heard[block].total);
  }
  EXPECT_EQ(shown.kind, kind);
  EXPECT_GE(shown.ms, 1000u);
  EXPECT_EQ(shown.total, heard[2].total);
}

TEST(UpkeepProgress, OfAStoreInFoldersIsShownWhileTheWorkLastsAndNotBehindIt) {
  TestStore test({2, 1}, 4);
  test.options.lock_path = test.root + "/lock";
  const auto open_for_reading = [&] {
    StoreOptions reading = test.options;
    reading.access = StoreAccess::Read;
    return Store::open(test.file, reading);
  };
  auto store = test.open();
  ASSERT_TRUE(put_files(**store, {test.made("x", random_bytes(1, 80'000))}).ok());
  std::vector<UpkeepProgress> heard;
  UpkeepProgress shown;
  ASSERT_TRUE(scrub_store(**store, watching(heard, shown, open_for_reading)).ok());
  expect_progress(heard, shown, UpkeepKind::Scrub);
  EXPECT_EQ(heard.back().done, heard.back().total);
  store->reset();
  EXPECT_EQ(health_of(**open_for_reading())->upkeep, UpkeepProgress{});
}

TEST_F(StoreUpkeep, ProgressOfADrainIsShownWhileItLastsAndNotBehindIt) {
  for (size_t server = 0; server < 4; ++server) start_here(server);
  ASSERT_TRUE(create().ok());
  put("x", random_bytes(1, 80'000));
  std::vector<UpkeepProgress> heard;
  UpkeepProgress shown;
  {
    auto store = open(StoreAccess::Maintain);
    const auto drained = drain_server(
        **store, "s3", watching(heard, shown, [&] { return open(StoreAccess::Read); }));
    ASSERT_TRUE(drained.ok()) << drained.error().message;
  }
  expect_progress(heard, shown, UpkeepKind::Drain);
  EXPECT_EQ(health_of(**open(StoreAccess::Read))->upkeep, UpkeepProgress{});
}

}  // namespace
}  // namespace trireme
