#include "train/text_samples.h"

#include <utility>

#include "train/generate.h"

namespace trireme {

TextSamples::TextSamples(const RunPlan& plan, Engine& engine, const Frame& params,
                         const Tokenizer& tokenizer, Tell tell)
    : run_(plan.config.run),
      engine_(engine),
      tokenizer_(tokenizer),
      tell_(std::move(tell)),
      params_(params),
      decoder_(plan.model, params_, plan.shape.compute) {}

std::optional<SampleReport> TextSamples::write(int64_t step) {
  const Result<std::vector<int32_t>> prompt = tokenizer_.encode(run_.sample_prompt);
  if (!prompt.ok()) {
    tell_once(prompt.error().message);
    return std::nullopt;
  }
  Progress& progress = engine_.world().progress();
  const ShownCall call(&progress, "generation", "run.sample_prompt");
  SampleReport report{step, run_.sample_prompt};
  const GenerateCalls calls{.emit =
                                [&](int32_t token) {
                                  report.text += tokenizer_.piece(token);
                                  progress.advance();
                                  return true;
                                },
                            .note = [this](const std::string& sentence) { tell_once(sentence); }};
  generate(engine_.ctx(), decoder_, tokenizer_, {{*prompt, {.seed = run_.seed}, calls}},
           run_.sample_tokens);
  return report;
}

void TextSamples::tell_once(const std::string& sentence) {
  if (told_.insert(sentence).second) tell_("run.sample_prompt: " + sentence);
}

}  // namespace trireme
