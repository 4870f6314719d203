#include "runtime/offload.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "device/buffer.h"
#include "memory/offload_pieces.h"
#include "program/accumulate.h"
#include "program/offload.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

RankPlan rank_plan() {
  ModelConfig config;
  config.layers = 2;
  config.d_model = 64;
  config.heads = 4;
  config.vocab_size = 301;
  config.seq_len = 16;
  const ModelSpec model = *resolve_model(config, 0);
  RankPlan rank;
  rank.shape = {1, DType::BF16};
  rank.chunks.push_back(chunk_tables(model, whole_model(model), rank.shape, {}, {}));
  rank.chunks[0].pieces = offload_pieces(rank.chunks[0], 100000);
  rank.program = {{.kind = ActionKind::F}, {.kind = ActionKind::BW}};
  append_step(rank.program);
  rank.program = add_offload(rank.program, {int(rank.chunks[0].pieces.size())});
  MemoryNeeds needs;
  needs.chunks.push_back({&rank.chunks[0]});
  rank.memory = plan_memory(rank.program, {}, needs);
  return rank;
}

// A rank with its memory and its file, and what Step would do with the pieces.
struct OffloadedRank {
  RankPlan plan = rank_plan();
  ThreadTeam team{1};
  Buffer arena = Buffer::allocate(plan.memory.arena_bytes);
  RankMemory memory{plan, arena.data(), team};
  std::string path =
      (fs::temp_directory_path() / ("trireme-offload-test-" + std::to_string(getpid()))).string();
  std::unique_ptr<Offload> offload = std::make_unique<Offload>(plan, memory, path, 10.0);

  size_t num_pieces() const { return plan.chunks[0].pieces.size(); }
  int64_t table_bytes() const { return plan.chunks[0].tables.optimizer.bytes(); }

  // Adds 1 to every byte of the state.
  void step() {
    for (size_t i = 0; i < plan.program.size(); ++i) {
      const Action& action = plan.program[i];
      const ActionMemory& planned = plan.memory.actions[i];
      memory.acquire(planned.acquire);
      if (action.kind == ActionKind::FetchPiece) offload->start_fetch(action);
      if (action.kind == ActionKind::OffloadPiece) offload->start_offload(action);
      if (action.kind == ActionKind::StepPiece) {
        offload->finish_fetch(action);
        auto* bytes = static_cast<uint8_t*>(offload->staged(0, action.microbatch));
        for (const OffloadBlock& block : plan.chunks[0].pieces[size_t(action.microbatch)].blocks) {
          for (int64_t b = 0; b < block.bytes; ++b) ++bytes[block.in_buffer + b];
        }
      }
      if (planned.finish_offload) offload->finish();
      memory.release(planned.release);
    }
  }

  // The open file, which has no name.
  std::string held() const {
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const std::string target = fs::read_symlink(entry.path(), gone).string();
      if (target.starts_with(path)) return entry.path();
    }
    return "";
  }

  void overwrite(int64_t at) const {
    std::fstream file(held(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at);
    file.put('\x7f');
  }
};

std::string failure_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const IoError& error) {
    return error.what();
  }
  return "";
}

TEST(Offload, EveryByteGoesThroughABufferOnceInAStep) {
  OffloadedRank rank;
  EXPECT_GT(rank.num_pieces(), 4u);
  auto* state = static_cast<uint8_t*>(rank.offload->state(0));
  for (int64_t i = 0; i < rank.table_bytes(); ++i) {
    EXPECT_EQ(state[i], 0);
    state[i] = uint8_t(i);
  }
  rank.offload->adopt_map();
  const int64_t before = rank.offload->moved_bytes();
  for (int step = 0; step < 3; ++step) rank.step();
  int64_t bytes = 0;
  for (const TensorSpec& tensor : rank.plan.chunks[0].tables.optimizer.tensors()) {
    bytes += tensor.bytes();
    for (int64_t i = tensor.offset; i < tensor.offset + tensor.bytes(); ++i) {
      ASSERT_EQ(state[i], uint8_t(i + 3)) << tensor.name;
    }
  }
  EXPECT_EQ(rank.offload->moved_bytes() - before, 3 * 2 * bytes);
  EXPECT_EQ(rank.memory.peak_bytes(), rank.plan.memory.peak_bytes);
  rank.offload->verify();
}

bool is_anything_at(const std::string& path) {
  for (const auto& entry : fs::directory_iterator(fs::path(path).parent_path())) {
    if (entry.path().string().starts_with(path)) return true;
  }
  return false;
}

// A rank that is killed leaves nothing on the disk.
TEST(Offload, TheFileHasNoNameWhileItIsUsedAndEndsWithItsRank) {
  OffloadedRank rank;
  EXPECT_FALSE(is_anything_at(rank.path));
  EXPECT_NE(rank.held(), "");
  rank.step();
  rank.offload->verify();
  rank.offload.reset();
  EXPECT_EQ(rank.held(), "");
}

TEST(Offload, WhatAKilledRankHasLeftBeforeItsFileLostTheNameIsRemoved) {
  const std::string path =
      (fs::temp_directory_path() / ("trireme-offload-left-" + std::to_string(getpid()))).string();
  std::ofstream(path + ".tmp-1") << "of a killed rank";
  OffloadFile file(path, 4096);
  EXPECT_FALSE(is_anything_at(path));
}

TEST(Offload, WhatChangedOnTheDiskIsAnError) {
  OffloadedRank rank;
  rank.step();
  rank.overwrite(5000);
  EXPECT_NE(failure_of([&] { rank.offload->verify(); }).find("damaged"), std::string::npos);
  const std::string failure = failure_of([&] { rank.step(); });
  EXPECT_NE(failure.find(rank.path), std::string::npos);
  EXPECT_NE(failure.find("are not what was written"), std::string::npos) << failure;
}

TEST(Offload, AShortenedFileIsAnError) {
  OffloadedRank rank;
  rank.step();
  fs::resize_file(rank.held(), 4096);
  EXPECT_NE(failure_of([&] { rank.offload->verify(); }).find("shortened"), std::string::npos);
  EXPECT_NE(failure_of([&] { rank.step(); }).find("shortened"), std::string::npos);
}

TEST(Offload, ADiskThatIsTooSmallIsSaidBeforeTheFirstStep) {
  const std::string path =
      (fs::temp_directory_path() / ("trireme-offload-full-" + std::to_string(getpid()))).string();
  const std::string failure = failure_of([&] { OffloadFile(path, int64_t{1} << 61); });
  EXPECT_NE(failure.find("cannot reserve"), std::string::npos) << failure;
  EXPECT_NE(failure.find("memory.offload_folder"), std::string::npos);
  EXPECT_FALSE(is_anything_at(path));
  EXPECT_NE(failure_of([] { OffloadFile("/proc/none/x", 1); }).find("cannot make"),
            std::string::npos);
}

}  // namespace
}  // namespace trireme
