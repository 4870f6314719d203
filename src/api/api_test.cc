#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "trireme/trireme.h"

namespace trireme::api {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTiny = R"(
[model]
family = "llama"
layers = 1
d_model = 32
heads = 2
seq_len = 16

[batch]
global_sequences = 4
micro_sequences = 2

[precision]
compute = "fp32"

[run]
steps = 6
threads_per_rank = 1
)";

class Api : public testing::Test {
 protected:
  Api() { fs::create_directories(folder_); }
  ~Api() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  static Configuration synthetic(std::vector<std::string> overrides = {}) {
    overrides.insert(overrides.begin(), {"data.source=synthetic", "model.vocab_size=64"});
    return Configuration::from_toml(kTiny, overrides);
  }

  // Returns the kind of the Failure that body() throws, or nullopt if it throws nothing.
  template <typename Body>
  static std::string failure_of(Body&& body, Failure::Kind kind) {
    try {
      body();
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.kind(), kind) << failure.what();
      return failure.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return "";
  }

  fs::path folder_ =
      fs::temp_directory_path() / ("trireme_api_" + std::to_string(getpid()) +
                                   testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(Api, AStoppedRunResumesToTheSameLosses) {
  std::map<int64_t, double> whole, pieces;
  const auto keep = [](std::map<int64_t, double>& losses, int64_t last) {
    return [&losses, last](const TrainingStep& step) {
      losses[step.step] = step.loss;
      return step.step < last;
    };
  };
  const TrainResult first =
      train(synthetic(), {.out_dir = path("whole"), .on_step = keep(whole, 100)});
  EXPECT_TRUE(first.finished);
  const TrainResult stopped =
      train(synthetic(), {.out_dir = path("pieces"), .on_step = keep(pieces, 3)});
  EXPECT_FALSE(stopped.finished);
  EXPECT_EQ(stopped.steps, 4);  // the ranks agree to stop in the step after the request
  const TrainResult resumed =
      train(synthetic(), {.out_dir = path("pieces"), .resume = true, .on_step = keep(pieces, 100)});
  EXPECT_TRUE(resumed.finished);
  EXPECT_EQ(resumed.final_loss, first.final_loss);
  EXPECT_EQ(pieces, whole);
}

TEST_F(Api, TextIsPreparedTrainedOnAndWritten) {
  std::ofstream(path("text.txt")) << std::string(4000, 'a') << "b";
  const PreparedData data =
      prepare_data({.texts = {path("text.txt")}, .out_dir = path("data"), .num_threads = 1});
  EXPECT_EQ(data.train_tokens + data.val_tokens, 4002);  // includes the end-of-text token
  const Configuration run =
      Configuration::from_toml(kTiny, {"data.source=files", "data.train=" + path("data/train.tok"),
                                       "data.tokenizer=" + path("data/tokenizer.json")});
  const Plan planned = plan(run);
  train(run, {.out_dir = path("run")});

  Model model = Model::load(path("run"), 1);
  EXPECT_EQ(model.num_params(), planned.num_params);
  EXPECT_EQ(model.vocab_size(), data.vocab_size);
  EXPECT_EQ(model.decode(model.encode("any \xff bytes")), "any \xff bytes");
  const std::vector<int32_t> tokens = model.encode("aaa");
  EXPECT_EQ(int64_t(model.logits(tokens).size()), model.vocab_size());
  EXPECT_EQ(model.logits(tokens), model.logits(tokens));
  std::string pieces;
  const GenerateRequest request{
      .prompt = "aa", .num_tokens = 8, .seed = 3, .on_piece = [&](std::string_view piece) {
        pieces += piece;
      }};
  const std::string text = generate(model, request);
  EXPECT_EQ(text, pieces);
  EXPECT_EQ(text, generate(model, request));
  std::vector<std::string> notes;
  const auto keep_note = [&](const std::string& note) { notes.push_back(note); };
  generate(model, {.prompt = "aa", .num_tokens = 1, .on_note = keep_note});
  EXPECT_TRUE(notes.empty());
  generate(model, {.prompt = std::string(200, 'b'), .num_tokens = 1, .on_note = keep_note});
  ASSERT_EQ(notes.size(), 1);
  EXPECT_NE(notes[0].find("the context of the model has 16"), std::string::npos) << notes[0];
}

TEST_F(Api, EveryFailureIsOfItsKindAndSaysWhatToChange) {
  EXPECT_NE(
      failure_of([] { Configuration::from_toml("[model]\nlayrs = 1\n"); }, Failure::Kind::Usage)
          .find("model.layers"),
      std::string::npos);
  EXPECT_NE(
      failure_of([] { plan(synthetic({"memory.limit_bytes=1000"})); }, Failure::Kind::Infeasible)
          .find("needs"),
      std::string::npos);
  failure_of([] { plan(synthetic(), {.cluster_file = "/nowhere.toml"}); }, Failure::Kind::Usage);
  failure_of([] { train(synthetic({"run.backend=mpi"}), {.out_dir = "x"}); }, Failure::Kind::Usage);
  failure_of([] { train(synthetic({"checkpoint.store=store://a/b"}), {.out_dir = "x"}); },
             Failure::Kind::Usage);
  failure_of([&] { Model::load(path("nothing")); }, Failure::Kind::Damaged);

  train(synthetic(), {.out_dir = path("run")});
  failure_of([&] { train(synthetic(), {.out_dir = path("run")}); }, Failure::Kind::Usage);
  Model model = Model::load(path("run"), 1);
  failure_of([&] { model.encode("no tokenizer"); }, Failure::Kind::Usage);
  failure_of([&] { model.logits(std::vector<int32_t>{64}); }, Failure::Kind::Usage);
  failure_of([&] { model.logits({}); }, Failure::Kind::Usage);
}

TEST(ApiConfiguration, PrintsWhatReadsBackAsItself) {
  const Configuration run = Configuration::from_toml(kTiny, {"optim.lr=1e-3"});
  EXPECT_EQ(Configuration::from_toml(run.to_toml()).to_toml(), run.to_toml());
}

TEST(ApiVersion, IsThatOfTheHeaders) { EXPECT_STREQ(version(), TRIREME_VERSION_STRING); }

}  // namespace
}  // namespace trireme::api
