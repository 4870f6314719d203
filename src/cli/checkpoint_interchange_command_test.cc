#include "cli/checkpoint_interchange_command.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/file.h"
#include "checkpoint/find_checkpoint.h"
#include "checkpoint/save.h"
#include "cli/checkpoint_command.h"
#include "cli/foreign_model_fixture.h"
#include "cli/tokenizer_interchange_command.h"
#include "interchange/foreign_model.h"
#include "interchange/peft_adapters.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class Interchange : public testing::Test {
 protected:
  Interchange()
      : folder_(fs::temp_directory_path() /
                ("trireme_interchange_test." + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Interchange() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // Makes a Hugging Face folder with a model and its tokenizer.
  void make(const std::string& name, ModelFamily family) {
    const InterchangeModel model = small_foreign_model(family);
    ASSERT_TRUE(write_foreign_model(model, path(name), {}).ok());
  }
  std::string logits(const std::string& name) {
    std::ostringstream out;
    CommandIo io{out, err_};
    EXPECT_TRUE(run_checkpoint_logits({path(name), "1, 2 299"}, io).ok());
    return out.str();
  }

  fs::path folder_;
  std::ostringstream out_, err_;
  CommandIo io_{out_, err_};
};

TEST_F(Interchange, LogitsAreTheSameInEveryFormatAndInTheCheckpoint) {
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Llama}) {
    const bool is_gpt2 = family == ModelFamily::Gpt2;
    const std::string name = is_gpt2 ? "gpt2" : "llama";
    make(name, family);
    const std::string expected = logits(name);
    EXPECT_EQ(std::count(expected.begin(), expected.end(), '\n'), 3);
    ASSERT_TRUE(run_checkpoint_import({path(name), path(name + ".ck")}, io_).ok());
    EXPECT_NE(out_.str().find("equal bit for bit"), std::string::npos);
    EXPECT_EQ(logits(name + ".ck"), expected);
    for (const char* format : {"hf", "gguf", "llmc"}) {
      const std::string file = name + "." + format;
      const auto written =
          run_checkpoint_export({path(name + ".ck"), format, "fp32", path(file)}, io_);
      if (!is_gpt2 && std::string(format) == "llmc") {
        EXPECT_EQ(written.error().kind, ErrorKind::Infeasible);
        continue;
      }
      ASSERT_TRUE(written.ok()) << written.error().message;
      EXPECT_EQ(logits(file), expected) << file;
    }
  }
}

// Adapters of another program on a model of another program: what is exported is what was read, and
// the merged model is the same function.
TEST_F(Interchange, AdaptersAreReadWrittenAndMerged) {
  make("llama", ModelFamily::Llama);
  InterchangeModel adapted = read_foreign_model(path("llama")).value();
  adapted.config.lora_rank = 2;
  adapted.weights = Weights(*resolve_model(adapted.config, 0));
  float value = 0.3f;
  for (const ParamSpec& param : adapted.weights.params()) {
    if (!param.is_adapter) continue;
    for (float& element : adapted.weights.at(param.name))
      element = (value = value * 7.7f - float(int(value * 7.7f))) - 0.4f;
  }
  ASSERT_TRUE(write_peft_adapters(adapted, path("peft"), DType::F32).ok());
  const auto imported = run_checkpoint_import(
      {.path = path("llama"), .out = path("ck"), .adapters = path("peft")}, io_);
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  EXPECT_NE(logits("ck"), logits("llama"));
  ASSERT_TRUE(run_checkpoint_export({path("ck"), "peft", "fp32", path("again")}, io_).ok());
  for (const char* file : {"adapter_config.json", "adapter_model.safetensors"}) {
    EXPECT_EQ(read_text_file(path("again/" + std::string(file))).value(),
              read_text_file(path("peft/" + std::string(file))).value());
  }
  ASSERT_TRUE(run_checkpoint_export({path("ck"), "hf", "fp32", path("merged")}, io_).ok());
  EXPECT_NE(out_.str().find("merged the adapters of q,k,v,o,gate,up,down"), std::string::npos);
  // A checkpoint is a base model, too, but not one with adapters.
  ASSERT_TRUE(run_checkpoint_import({path("llama"), path("base")}, io_).ok());
  const auto onto = [&](const std::string& name, const std::string& out) {
    return run_checkpoint_import({.path = path(name), .out = path(out), .adapters = path("peft")},
                                 io_);
  };
  ASSERT_TRUE(onto("base", "ck2").ok());
  EXPECT_EQ(logits("ck2"), logits("ck"));
  EXPECT_EQ(onto("ck", "ck3").error().kind, ErrorKind::Usage);
  const auto quantised = run_checkpoint_export({path("ck"), "peft", "q8_0", path("q")}, io_);
  EXPECT_EQ(quantised.error().kind, ErrorKind::Usage);
}

TEST_F(Interchange, AWrongFolderOfAdaptersIsCalledWhatItIs) {
  make("llama", ModelFamily::Llama);
  ASSERT_TRUE(run_checkpoint_import({path("llama"), path("base")}, io_).ok());
  fs::create_directories(path("empty"));
  fs::create_directories(path("half"));
  std::ofstream(path("half/adapter_config.json")) << "{}";
  fs::create_directories(path("pickled"));
  std::ofstream(path("pickled/adapter_config.json")) << "{}";
  std::ofstream(path("pickled/adapter_model.bin")) << "x";
  for (const auto& [name, part] : {std::pair{"missing", "no such folder"},
                                   {"llama/config.json", "a file"},
                                   {"empty", "has no adapter_config.json"},
                                   {"half", "no adapter_model.safetensors"},
                                   {"pickled", "save it again with safe_serialization"},
                                   {"base", "a checkpoint or a run of Trireme"},
                                   {"llama", "a whole model (config.json)"}}) {
    const auto refused = run_checkpoint_import(
        {.path = path("llama"), .out = path("ck"), .adapters = path(name)}, io_);
    ASSERT_FALSE(refused.ok()) << name;
    EXPECT_EQ(refused.error().kind, ErrorKind::Usage) << name;
    const std::string& message = refused.error().message;
    EXPECT_TRUE(message.starts_with("--adapters " + path(name) + ": ")) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_NE(message.find("a folder with adapter_config.json and adapter_model.safetensors"),
              std::string::npos)
        << message;
    EXPECT_FALSE(fs::exists(path("ck"))) << name;
  }
}

TEST_F(Interchange, TheTokenizerComesAlong) {
  make("gpt2", ModelFamily::Gpt2);
  ASSERT_TRUE(run_checkpoint_import({path("gpt2"), path("ck")}, io_).ok());
  const auto checkpoint = find_checkpoint(path("ck"));
  const auto tokenizer = parse_tokenizer(checkpoint->read_attached("tokenizer.json").value());
  EXPECT_EQ((*tokenizer)->vocab_size(), 259);
  fs::remove(path("gpt2/tokenizer.json"));
  fs::remove(path("gpt2/vocab.json"));
  ASSERT_TRUE(run_checkpoint_import({path("gpt2"), path("without")}, io_).ok());
  EXPECT_NE(err_.str().find("no tokenizer"), std::string::npos);
  err_.str("");
  ASSERT_TRUE(run_checkpoint_export({path("without"), "gguf", "fp32", path("x.gguf")}, io_).ok());
  EXPECT_NE(err_.str().find("no tokenizer"), std::string::npos) << err_.str();
}

TEST_F(Interchange, AnImportedTokenizerReplacesNoFile) {
  make("gpt2", ModelFamily::Gpt2);
  std::ofstream(path("taken.json")) << "mine";
  const Status refused =
      run_tokenizer_import({.path = path("gpt2"), .out = path("taken.json")}, out_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::Usage);
  EXPECT_EQ(fs::file_size(path("taken.json")), 4u);
  const Status written =
      run_tokenizer_import({.path = path("gpt2"), .out = path("new.json")}, out_);
  EXPECT_TRUE(written.ok()) << written.error().message;
}

TEST_F(Interchange, ATrainableCheckpointHasTheOptimizersBeginning) {
  make("gpt2", ModelFamily::Gpt2);
  ASSERT_TRUE(run_checkpoint_import({path("gpt2"), path("ck"), true}, io_).ok());
  const auto checkpoint = find_checkpoint(path("ck"));
  EXPECT_EQ(checkpoint->info().optimizer, "adamw");
  EXPECT_EQ(checkpoint->info().optimizer_scalars.at("num_updates"), 0.0);
  for (const auto& [name, tensor] : checkpoint->index().contents.tensors) {
    if (name.starts_with("exp_avg")) continue;
    EXPECT_NE(checkpoint->find("exp_avg/" + name), nullptr) << name;
    EXPECT_NE(checkpoint->find("exp_avg_sq/" + name), nullptr) << name;
  }
  // The configuration names no data, so the command that trains it says what to set.
  EXPECT_NE(out_.str().find("train it: trireme train " + path("ck") + "/config.resolved.toml " +
                            "--resume " + path("ck") + " --set data.train=TRAIN.tok "),
            std::string::npos)
      << out_.str();
}

// The checksums of this checkpoint are right, so every command that reads its configuration must
// itself refuse the deep nesting.
TEST_F(Interchange, ADeepConfigurationWithTheRightChecksumIsDamage) {
  std::string deep = "a";
  for (int level = 0; level < 40000; ++level) deep += ".a";
  deep += " = 1\n";
  const AttachedFile attached{"config.resolved.toml", deep};
  const float value = 1.0f;
  const TensorPiece piece{"w", Shape{1}, DType::F32, Slice::whole(Shape{1}), &value};
  const auto folder = save_checkpoint(path("deep"), {.step = 1}, {&attached, 1}, {&piece, 1});
  ASSERT_TRUE(folder.ok()) << folder.error().message;
  const auto refused = [](const Result<int>& result) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().kind, ErrorKind::Damaged);
    EXPECT_NE(result.error().message.find("64 levels"), std::string::npos)
        << result.error().message;
  };
  refused(run_checkpoint_verify({*folder}, io_));
  refused(run_checkpoint_export({*folder, "hf", "fp32", path("exported")}, io_));
  refused(run_checkpoint_logits({*folder, "1"}, io_));
}

// A command that takes a checkpoint also takes its run, and the folder of the run's checkpoints.
TEST_F(Interchange, TheFolderOfCheckpointsIsThatOfTheNewest) {
  make("gpt2", ModelFamily::Gpt2);
  const std::string checkpoints = path("run/checkpoints");
  fs::create_directories(checkpoints);
  ASSERT_TRUE(run_checkpoint_import({path("gpt2"), checkpoints + "/step-000000"}, io_).ok());
  EXPECT_EQ(logits("run/checkpoints"), logits("gpt2"));
  EXPECT_EQ(logits("run"), logits("gpt2"));
}

TEST_F(Interchange, RefusalsHaveTheirKinds) {
  make("gpt2", ModelFamily::Gpt2);
  const auto kind_of = [](const Result<int>& result) {
    EXPECT_FALSE(result.ok());
    return result.error().kind;
  };
  EXPECT_EQ(kind_of(run_checkpoint_import({path("absent"), path("ck")}, io_)), ErrorKind::Usage);
  EXPECT_EQ(kind_of(run_checkpoint_import({path("gpt2/merges.txt"), path("ck")}, io_)),
            ErrorKind::Damaged);
  EXPECT_FALSE(fs::exists(path("ck")));
  ASSERT_TRUE(run_checkpoint_import({path("gpt2"), path("ck")}, io_).ok());
  EXPECT_EQ(kind_of(run_checkpoint_import({path("gpt2"), path("ck")}, io_)), ErrorKind::Usage);
  EXPECT_EQ(kind_of(run_checkpoint_export({path("ck"), "hf", "q8_0", path("x")}, io_)),
            ErrorKind::Usage);
  EXPECT_EQ(kind_of(run_checkpoint_export({path("ck"), "llmc", "fp16", path("x")}, io_)),
            ErrorKind::Usage);
  ASSERT_TRUE(run_checkpoint_export({path("ck"), "gguf", "fp32", path("x")}, io_).ok());
  for (const char* format : {"hf", "gguf", "llmc"}) {  // existing files are not overwritten
    EXPECT_EQ(kind_of(run_checkpoint_export({path("ck"), format, "fp32", path("x")}, io_)),
              ErrorKind::Usage);
  }
  EXPECT_EQ(kind_of(run_checkpoint_export({path("absent"), "hf", "fp32", path("y")}, io_)),
            ErrorKind::Usage);
  EXPECT_EQ(kind_of(run_checkpoint_verify({path("absent")}, io_)), ErrorKind::Usage);
  EXPECT_EQ(kind_of(run_checkpoint_logits({path("ck"), "300"}, io_)), ErrorKind::Usage);
  EXPECT_EQ(kind_of(run_checkpoint_logits({path("ck"), ""}, io_)), ErrorKind::Usage);
}

}  // namespace
}  // namespace trireme
