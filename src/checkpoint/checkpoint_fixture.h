#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/save.h"

// Fixtures for the tests of this folder.
namespace trireme {

// Gives every test its own folder. It is in memory if the system has such a place, because these
// tests sync many small files.
class FolderTest : public testing::Test {
 protected:
  FolderTest() {
    const std::filesystem::path memory = "/dev/shm";
    root_ = (std::filesystem::exists(memory) ? memory : std::filesystem::temp_directory_path()) /
            ("trireme_checkpoint_test." + std::to_string(::getpid()));
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  ~FolderTest() override { std::filesystem::remove_all(root_); }

  std::string root() const { return root_.string(); }

 private:
  std::filesystem::path root_;
};

inline std::string message_of(const Status& status) {
  return status.ok() ? "" : status.error().message;
}
template <typename T>
std::string message_of(const Result<T>& result) {
  return result.ok() ? "" : result.error().message;
}

// Two small tensors with their state; the values depend on the step.
struct SmallState {
  explicit SmallState(int64_t step) {
    info = {.step = step,
            .next_sample = 8 * step,
            .tokens_seen = 256 * step,
            .seed = 0xFEDCBA9876543210u,
            .data_identity = "0123456789abcdef",
            .optimizer = "adamw",
            .optimizer_scalars = {{"num_updates", double(step)}, {"loss_scale", 0.1}}};
    for (int i = 0; i < 12; ++i) weight.push_back(float(i) + 0.25f * float(step));
    for (int i = 0; i < 5; ++i) bias.push_back(float(-i) * float(step));
  }

  std::vector<TensorPiece> pieces() const {
    return {
        {"layers.0.attn.wq", Shape{3, 4}, DType::F32, Slice::box({0, 0}, {3, 2}), weight.data()},
        {"layers.0.attn.wq", Shape{3, 4}, DType::F32, Slice::box({0, 2}, {3, 2}),
         weight.data() + 6},
        {"exp_avg/layers.0.attn.bq", Shape{5}, DType::F32, Slice::whole(Shape{5}), bias.data()}};
  }
  std::vector<AttachedFile> attached() const {
    return {{"config.resolved.toml", "[run]\nseed = 1337\n"}, {"tokenizer.json", "{}"}};
  }
  Result<std::string> save(const std::string& root, const SaveOptions& options = {}) const {
    return save_checkpoint(root, info, attached(), pieces(), options);
  }

  CheckpointInfo info;
  std::vector<float> weight;  // saved as two boxes of [3, 2]
  std::vector<float> bias;
};

}  // namespace trireme
