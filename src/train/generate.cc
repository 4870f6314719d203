#include "train/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace trireme {
namespace {

double seconds_between(int64_t begin_ns, int64_t end_ns) {
  return double(end_ns - begin_ns) * 1e-9;
}

// The text so far and what the decoder has read of it.
class GenerationContext {
 public:
  GenerationContext(Decoder& decoder, std::vector<int32_t> prompt, const GenerateCalls& calls)
      : decoder_(decoder), calls_(calls), tokens_(std::move(prompt)) {
    decoder_.reset();
    const auto num_tokens = int64_t(tokens_.size()), kept = half();
    if (num_tokens <= decoder_.capacity()) {
      pending_ = tokens_;
      return;
    }
    pending_.assign(tokens_.end() - kept, tokens_.end());
    tell(
        fmt::format("the prompt has {} tokens, but the context of the model has {} "
                    "(model.seq_len): the model reads only the last {} tokens of the prompt",
                    num_tokens, decoder_.capacity(), kept));
  }

  // The tokens that the decoder reads next; at least one.
  const std::vector<int32_t>& pending() const { return pending_; }

  void add(int32_t token) {
    tokens_.push_back(token);
    pending_.assign(1, token);
    ++num_new_;
  }

  // Begins a new context if the pending tokens have no room in the old one.
  void make_room() {
    if (decoder_.length() + int64_t(pending_.size()) <= decoder_.capacity()) return;
    const int64_t kept = std::min(half(), int64_t(tokens_.size()));
    pending_.assign(tokens_.end() - kept, tokens_.end());
    decoder_.reset();
    if (std::exchange(has_rolled_, true)) return;
    tell(
        fmt::format("after {} new tokens, the context of {} tokens is full (model.seq_len): the "
                    "model forgets all but the last {} tokens, and again whenever it is full",
                    num_new_, decoder_.capacity(), kept));
  }

 private:
  int64_t half() const { return std::max<int64_t>(1, decoder_.capacity() / 2); }
  void tell(const std::string& sentence) const {
    if (calls_.note) calls_.note(sentence);
  }

  Decoder& decoder_;
  const GenerateCalls& calls_;
  std::vector<int32_t> tokens_, pending_;
  int64_t num_new_ = 0;
  bool has_rolled_ = false;
};

}  // namespace

GenerateReport generate(Ctx& ctx, Decoder& decoder, const Tokenizer& tokenizer,
                        TokenSampler& sampler, std::vector<int32_t> prompt, int64_t num_tokens,
                        const GenerateCalls& calls) {
  const int64_t begin_ns = monotonic_ns();
  if (prompt.empty()) prompt.push_back(tokenizer.end_of_text());
  sampler.note(prompt);
  GenerationContext context(decoder, std::move(prompt), calls);
  GenerateReport report{.prompt_tokens = int64_t(context.pending().size())};
  int64_t first_ns = begin_ns;
  for (int64_t i = 0; i < num_tokens; ++i) {
    context.make_room();
    const int32_t token = sampler.sample(decoder.append(ctx, context.pending()), uint64_t(i));
    const int64_t now_ns = monotonic_ns();
    if (i == 0) {
      first_ns = now_ns;
      report.first_token_s = seconds_between(begin_ns, first_ns);
    }
    report.decoded_tokens = i;
    report.decode_s = seconds_between(first_ns, now_ns);
    if (token == tokenizer.end_of_text()) break;
    ++report.new_tokens;
    if (!calls.emit(token)) break;
    context.add(token);
    sampler.note({&token, 1});
  }
  return report;
}

}  // namespace trireme
