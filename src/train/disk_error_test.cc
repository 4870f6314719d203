#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>

#include "data/synthetic_source.h"
#include "train/kernel_choice.h"
#include "train/run_save_fixture.h"

// The calls below replace those of the C library in this binary. One of them fails with EIO, as on
// a disk that loses what is written, for the files of one checkpoint.
namespace {

enum class DiskCall { None, Write, Sync, SyncFolder, Rename };

std::atomic<DiskCall> failing_call = DiskCall::None;
std::atomic<const char*> failing_file = "";  // part of its path; of Rename: the end of the new path
std::atomic<int> num_disk_errors = 0;
std::atomic<int> most_disk_errors = INT_MAX;  // then calls succeed again

bool count_disk_error() {
  ++num_disk_errors;
  errno = EIO;
  return true;
}

bool fails_on_disk(DiskCall call, int fd) {
  const bool is_sync = call == DiskCall::Sync && failing_call == DiskCall::SyncFolder;
  if ((failing_call != call && !is_sync) || num_disk_errors >= most_disk_errors) return false;
  char path[4096] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  if (::readlink(link.c_str(), path, sizeof path - 1) <= 0) return false;
  const bool is_file = is_sync ? std::string_view(path).ends_with(failing_file.load())
                               : std::strstr(path, failing_file) != nullptr;
  return is_file && count_disk_error();
}

bool fails_to_rename(const char* to) {
  return failing_call == DiskCall::Rename && std::string_view(to).ends_with(failing_file.load()) &&
         count_disk_error();
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* data, size_t size) {
  return fails_on_disk(DiskCall::Write, fd) ? -1 : ::syscall(SYS_write, fd, data, size);
}

int fsync(int fd) {
  return fails_on_disk(DiskCall::Sync, fd) ? -1 : static_cast<int>(::syscall(SYS_fsync, fd));
}

int rename(const char* from, const char* to) noexcept {
  if (fails_to_rename(to)) return -1;
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
}

namespace trireme {
namespace {

using DiskErrorTest = SaveTest;

struct SavedBeside {
  std::vector<double> losses;
  Messages messages;
};

// Trains five steps, and begins to save after each of the first three of them. The calls of the
// second save fail.
SavedBeside save_beside(const RunPlan& plan, const CheckpointSaver::MakeRequest& requests,
                        DiskCall call, const char* file) {
  SavedBeside run;
  failing_file = file;
  run_ranks(plan.num_ranks(), [&](World& world) {
    const SyntheticSource source(3, plan.model.vocab_size);
    Engine engine(plan, world, *choose_kernels(IsaChoice::Auto)->kernels, source);
    engine.init_params(1);
    const bool is_first = world.rank() == 0;
    CheckpointSaver saver(
        engine, requests,
        is_first ? std::vector<RunObserver*>{&run.messages} : std::vector<RunObserver*>{});
    for (int64_t step = 1; step <= 5; ++step) {
      const auto first_sample = uint64_t((step - 1) * plan.global_sequences);
      const StepResult result = engine.step(first_sample, 1e-2);
      if (is_first) run.losses.push_back(result.loss_sum);
      EXPECT_EQ(saver.finish().ok(), call == DiskCall::None || step != 3) << "before step " << step;
      world.group().barrier();
      if (is_first) failing_call = step == 2 ? call : DiskCall::None;
      world.group().barrier();
      if (step <= 3) saver.start({.step = step});
    }
  });
  return run;
}

// EIO at each kind of call, in a shard, in the index and of the folder: it is told, training keeps
// its numbers, the former checkpoint stays as it was, and the next save succeeds.
TEST_F(DiskErrorTest, ASaveBesideTrainingThatMeetsEioChangesNothingElse) {
  RunConfig config = saving(some_run());
  config.parallel.dp = 2;
  config.parallel.zero = 1;
  const RunPlan plan = plan_of(config);
  const SavedBeside calm = save_beside(plan, requests(plan), DiskCall::None, "");
  const auto former = files_below(path("run/step-000001"));
  const auto later = files_below(path("run/step-000003"));
  EXPECT_EQ(calm.messages.saved_steps, (std::vector<int64_t>{1, 2, 3}));
  const struct {
    DiskCall call;
    const char* file;
  } cases[] = {{DiskCall::Write, "step-000002.tmp"},
               {DiskCall::Write, "/shard-00001"},
               {DiskCall::Sync, "/shard-00000"},
               {DiskCall::Sync, "/index.json"},
               {DiskCall::Rename, "/shard-00001-000.safetensors"},
               {DiskCall::Rename, "/step-000002"}};
  for (const auto& [call, file] : cases) {
    SCOPED_TRACE(std::to_string(int(call)) + file);
    fs::remove_all(path("run"));
    num_disk_errors = 0;
    const SavedBeside run = save_beside(plan, requests(plan), call, file);
    EXPECT_GE(num_disk_errors, 1);
    EXPECT_EQ(run.losses, calm.losses);
    EXPECT_EQ(run.messages.saved_steps, (std::vector<int64_t>{1, 3}));
    ASSERT_EQ(run.messages.texts.size(), 1u);
    EXPECT_EQ(run.messages.texts[0].find("step 2 has no checkpoint: "), 0u)
        << run.messages.texts[0];
    EXPECT_NE(run.messages.texts[0].find("Input/output error"), std::string::npos)
        << run.messages.texts[0];
    EXPECT_TRUE(files_below(path("run/step-000001")) == former);
    EXPECT_TRUE(files_below(path("run/step-000003")) == later);
    EXPECT_EQ(std::distance(fs::directory_iterator(path("run")), {}), 2);
  }
}

// Trains two steps, saves the first one, and saves the last one while the disk fails.
struct LastSave {
  bool is_saved = false;
  std::string error;
  SaveCounts counts;
  Messages messages;
};

LastSave save_last(const RunPlan& plan, const CheckpointSaver::MakeRequest& requests, DiskCall call,
                   const char* file, int most_errors) {
  LastSave last;
  failing_file = file;
  failing_call = DiskCall::None;
  num_disk_errors = 0;
  most_disk_errors = most_errors;
  run_ranks(plan.num_ranks(), [&](World& world) {
    const SyntheticSource source(3, plan.model.vocab_size);
    Engine engine(plan, world, *choose_kernels(IsaChoice::Auto)->kernels, source);
    engine.init_params(1);
    const bool is_first = world.rank() == 0;
    CheckpointSaver saver(
        engine, requests,
        is_first ? std::vector<RunObserver*>{&last.messages} : std::vector<RunObserver*>{});
    for (int64_t step = 1; step <= 2; ++step) {
      engine.step(uint64_t((step - 1) * plan.global_sequences), 1e-2);
      world.group().barrier();
      if (is_first && step == 2) failing_call = call;
      world.group().barrier();
      const Status saved = saver.save({.step = step});
      EXPECT_TRUE(saved.ok() || step == 2);
      if (!is_first) continue;
      last.is_saved = saved.ok();
      last.error = saved.ok() ? "" : saved.error().message;
      last.counts = saver.counts();
    }
  });
  failing_call = DiskCall::None;
  most_disk_errors = INT_MAX;
  return last;
}

// EIO of any sync of the last save, up to the very last one, which is that of the folder of
// checkpoints. If it comes once, it is told and counted, and the save is made again. If it stays,
// the run gets the error of the call and the file, and the former checkpoint is as it was.
TEST_F(DiskErrorTest, ASyncOfTheLastSaveThatFailsIsToldAndTheSaveIsMadeAgain) {
  RunConfig config = saving(some_run());
  config.parallel.dp = 2;
  config.parallel.zero = 1;
  const RunPlan plan = plan_of(config);
  ASSERT_TRUE(save_last(plan, requests(plan), DiskCall::None, "", 0).is_saved);
  const auto former = files_below(path("run/step-000001"));
  const auto wanted = files_below(path("run/step-000002"));
  const struct {
    DiskCall call;
    const char* file;
  } cases[] = {{DiskCall::Sync, "/shard-00001"},
               {DiskCall::Sync, "/index.json"},
               {DiskCall::SyncFolder, "/run"}};
  for (const auto& [call, file] : cases) {
    for (const int most_errors : {1, INT_MAX}) {
      SCOPED_TRACE(file + std::to_string(most_errors));
      fs::remove_all(path("run"));
      const LastSave last = save_last(plan, requests(plan), call, file, most_errors);
      EXPECT_EQ(last.is_saved, most_errors == 1);
      ASSERT_EQ(last.messages.texts.size(), 1u);
      const std::string& told = last.messages.texts[0];
      EXPECT_EQ(told.find("step 2 could not be saved, and is saved once more: "), 0u) << told;
      EXPECT_NE(told.find("Input/output error"), std::string::npos) << told;
      EXPECT_EQ(last.counts.failed, 1);
      EXPECT_EQ(last.counts.saved, most_errors == 1 ? 2 : 1);
      EXPECT_TRUE(files_below(path("run/step-000001")) == former);
      if (last.is_saved) {
        EXPECT_TRUE(files_below(path("run/step-000002")) == wanted);
        EXPECT_EQ(last.messages.saved_steps, (std::vector<int64_t>{1, 2}));
      } else {
        EXPECT_NE(last.error.find("Input/output error"), std::string::npos) << last.error;
        EXPECT_NE(last.error.find(file), std::string::npos) << last.error;
      }
    }
  }
}

}  // namespace
}  // namespace trireme
