// Prepares a text, plans a small model, trains it, loads it and generates text with it:
// train_and_generate FOLDER TEXT
#include <trireme/trireme.h>

#include <cstdio>
#include <iostream>

namespace api = trireme::api;

namespace {

// A model of two layers whose tokens are bytes. This text may contain any key of a RUN.toml.
constexpr const char* kRun = R"(
[model]
family = "llama"
layers = 2
d_model = 64
heads = 4
seq_len = 64

[batch]
global_sequences = 8
micro_sequences = 4

[optim]
lr = 3e-3

[precision]
compute = "fp32"

[run]
steps = 60
)";

void train_and_generate(const std::string& folder, const std::string& text) {
  const std::string data = folder + "/data";
  const api::PreparedData prepared = api::prepare_data({.texts = {text}, .out_dir = data});
  std::printf("%lld tokens of %lld kinds\n", static_cast<long long>(prepared.train_tokens),
              static_cast<long long>(prepared.vocab_size));

  const auto run =
      api::Configuration::from_toml(kRun, {"data.source=files", "data.train=" + data + "/train.tok",
                                           "data.tokenizer=" + data + "/tokenizer.json"});

  const api::Plan plan = api::plan(run);
  std::printf("%lld parameters, %.1f MiB at the peak\n", static_cast<long long>(plan.num_params),
              static_cast<double>(plan.peak_bytes.at(0)) / (1 << 20));

  const auto tell = [](const api::TrainingStep& step) {
    if (step.step % 20 == 0) {
      std::printf("step %lld: loss %.3f\n", static_cast<long long>(step.step), step.loss);
    }
    return true;  // returning false would save and stop the run
  };
  api::train(run, {.out_dir = folder + "/run", .on_step = tell});

  api::Model model = api::Model::load(folder + "/run");
  std::cout << api::generate(model, {.prompt = "The ", .num_tokens = 60, .seed = 1}) << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: train_and_generate FOLDER TEXT\n";
    return 2;
  }
  try {
    train_and_generate(argv[1], argv[2]);
  } catch (const api::Failure& failure) {
    std::cerr << failure.what() << "\n";
    return static_cast<int>(failure.kind());
  }
}
