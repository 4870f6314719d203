#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/config_load.h"
#include "jobs/import_job.h"

namespace trireme {
namespace {

// A file that is cut off, or that is of another form, is refused with the line where reading ended
// and with what to do.
TEST(UnparsableJob, NamesItsLineAndARemedy) {
  const std::string base = "[model]\nvocab_size = 256\n";
  struct Unparsable {
    JobTrainer trainer;
    std::string text;
    int line;
  };
  for (const auto& [trainer, text, line] : std::vector<Unparsable>{
           {JobTrainer::Megatron, "torchrun pretrain_gpt.py\n  --num-layers '24\n", 2},
           {JobTrainer::Megatron, "ARGS=(\n--num-layers 24\n", 1},
           {JobTrainer::Megatron, "A=1\npython pretrain_gpt.py --num-layers $((2 +\n", 2},
           {JobTrainer::Megatron, "A=1\npython pretrain_gpt.py --num-layers ${A\n", 2},
           {JobTrainer::Megatron, "A=1\npython pretrain_gpt.py --num-layers $(cat\n", 2},
           {JobTrainer::Torchtitan, "[training]\nseq_len = \n", 2},
           {JobTrainer::Torchtitan, "[training\nseq_len = 64\n", 1},
           {JobTrainer::Torchtitan, "{\n\"training\": {\n\"seq_len\": }}\n", 3},
           {JobTrainer::Torchtitan, "from torchtitan.config import TrainingConfig\n", 1},
           {JobTrainer::Deepspeed, "{\n\"train_batch_size\": 8", 2},
           {JobTrainer::Deepspeed, "train_batch_size = 8\n", 1},
           {JobTrainer::Deepspeed, "", 1}}) {
    ImportRequest request{.trainer = trainer, .text = text, .source = "job", .has_base = true};
    request.base = load_config_text(base, "base.toml", {}).value().config;
    const Result<ImportedJob> job = import_job(request);
    ASSERT_FALSE(job.ok()) << text;
    EXPECT_EQ(job.error().kind, ErrorKind::Usage) << text;
    const std::string place = "job:" + std::to_string(line);
    EXPECT_NE(job.error().message.find(place), std::string::npos)
        << text << " is told as " << job.error().message;
    const std::string& message = job.error().message;
    const auto says = [&](const char* remedy) { return message.find(remedy) != std::string::npos; };
    EXPECT_TRUE(says("correct") || says("add ") || says("use ") || says("start ")) << message;
  }
}

TEST(UnparsableJob, ABinaryFileIsCalledOne) {
  for (const JobTrainer trainer : kReadTrainers) {
    const std::string text(
        "\x7f"
        "ELF\0\1",
        6);
    const auto job = import_job({.trainer = trainer, .text = text, .source = "job"});
    ASSERT_FALSE(job.ok());
    EXPECT_TRUE(job.error().message.starts_with("job: this file is binary, with a zero at byte 4"))
        << job.error().message;
  }
}

}  // namespace
}  // namespace trireme
