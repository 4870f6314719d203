#pragma once
// The tests of saves share this: the folder of a run, and layouts that save.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "planner/make_plan.h"
#include "train/checkpoint_saver.h"
#include "train/memory_saver.h"
#include "train/run_fixture.h"
#include "train/run_state.h"

namespace trireme {

namespace fs = std::filesystem;

class SaveTest : public testing::Test {
 protected:
  SaveTest() {
    const fs::path memory = "/dev/shm";  // because a save syncs many small files
    root_ = (fs::exists(memory) ? memory : fs::temp_directory_path()) /
            ("trireme-run-save-" + std::to_string(::getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~SaveTest() override { fs::remove_all(root_); }
  std::string path(const std::string& name) const { return (root_ / name).string(); }

  CheckpointSaver::MakeRequest requests(const RunPlan& plan) const {
    return [this, &plan](const TrainPosition& at) {
      return SaveRequest{checkpoint_info(plan, at, "data"), {}, path("run"), ""};
    };
  }

  fs::path root_;
};

class Messages : public RunObserver {
 public:
  void on_checkpoint(const CheckpointReport& report) override {
    saved_steps.push_back(report.step);
  }
  void on_message(std::string_view text) override { texts.emplace_back(text); }
  std::vector<int64_t> saved_steps;
  std::vector<std::string> texts;
};

inline RunConfig saving(RunConfig config) {
  config.run.steps = 100;
  config.checkpoint.every = 10;
  return config;
}

inline std::vector<RunConfig> saving_layouts() {
  std::vector<RunConfig> all;
  const auto add = [&](auto&& set) {
    all.push_back(saving(some_run()));
    set(all.back());
  };
  add([](RunConfig& c) {  // so large that a step would overtake its copy, if it could
    c.model.layers = 1;
    c.model.d_model = 384;
    c.model.seq_len = 4;
    c.batch.global_sequences = 1;
  });
  for (const int zero : {0, 1, 2, 3}) {
    add([&](RunConfig& c) {
      c.parallel.dp = 2;
      c.parallel.zero = zero;
      if (zero == 2) c.precision.compute = ComputeChoice::Bf16;
    });
  }
  add([](RunConfig& c) {
    c.parallel.pp = 2;
    c.parallel.schedule = ScheduleKind::ZbH2;
    c.optim.post_validate = true;
    c.optim.clip_norm = 1e3;
  });
  add([](RunConfig& c) {
    c.parallel.pp = 2;
    c.parallel.schedule = ScheduleKind::Dualpipe;
  });
  add([](RunConfig& c) { c.parallel.tp = 2; });
  add([](RunConfig& c) { c.parallel.cp = 2; });
  add([](RunConfig& c) {
    c.model.family = ModelFamily::Moe;
    c.model.tied_head = false;
    c.model.d_ff = 16;
    c.model.experts = 4;
    c.parallel.dp = c.parallel.ep = 2;
  });
  return all;
}

inline std::map<std::string, std::string> files_below(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files[fs::relative(entry.path(), folder).string()] =
        std::string(std::istreambuf_iterator<char>(file), {});
  }
  return files;
}

inline RunPlan plan_of(const RunConfig& config) {
  Result<RunPlan> plan = make_plan(config, {});
  TRIREME_CHECK(plan.ok(), plan.error().message);
  return std::move(*plan);
}

inline SaveRequest request_in(const std::string& folder, const RunPlan& plan,
                              const TrainPosition& at) {
  return {checkpoint_info(plan, at, "data"), {}, folder, ""};
}

inline MemoryTier on_one_host(const std::string& folder) { return {.place = {"here", folder}}; }

}  // namespace trireme
