#include "train/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/clock.h"

namespace trireme {
namespace {

// A text so far and what the decoder has read of it, as one of its sequences.
class GeneratedText {
 public:
  GeneratedText(Decoder& decoder, int64_t sequence, const Tokenizer& tokenizer,
                GenerateRequest request, int64_t num_tokens)
      : decoder_(decoder),
        sequence_(sequence),
        end_of_text_(tokenizer.end_of_text()),
        num_tokens_(num_tokens),
        calls_(std::move(request.calls)),
        sampler_(request.sampling, tokenizer.vocab_size()),
        tokens_(std::move(request.prompt)) {
    decoder_.reset(sequence_);
    if (tokens_.empty()) tokens_.push_back(end_of_text_);
    sampler_.note(tokens_);
    const auto prompt_tokens = int64_t(tokens_.size());
    const bool fits = prompt_tokens <= decoder_.capacity();
    pending_.assign(fits ? tokens_.begin() : tokens_.end() - half(), tokens_.end());
    report_.prompt_tokens = int64_t(pending_.size());
    if (fits) return;
    tell(
        fmt::format("the prompt has {} tokens, but the context of the model has {} "
                    "(model.seq_len): the model reads only the last {} tokens of the prompt",
                    prompt_tokens, decoder_.capacity(), half()));
  }

  bool has_ended() const { return has_ended_ || report_.new_tokens >= num_tokens_; }
  const GenerateReport& report() const { return report_; }
  void end() const {
    if (calls_.end) calls_.end();
  }

  // Returns what the decoder reads next, which is at least one token. If these tokens have no room
  // in the old context, a new one begins.
  NextTokens next() {
    if (decoder_.length(sequence_) + int64_t(pending_.size()) > decoder_.capacity()) roll();
    return {sequence_, pending_};
  }

  // Draws the token that follows those of next().
  void draw(std::span<const float> logits_V) {
    const auto position = uint64_t(report_.new_tokens);
    const int32_t token = sampler_.sample(logits_V, position);
    report_.decoded_tokens = report_.new_tokens;
    has_ended_ = token == end_of_text_;
    if (has_ended_) return;
    ++report_.new_tokens;
    tokens_.push_back(token);
    pending_.assign(1, token);
    sampler_.note({&token, 1});
    has_ended_ = !calls_.emit(token);
  }

  // Adds the time that next() and draw() took to the report.
  void add_time(double seconds) {
    (report_.decoded_tokens == 0 ? report_.first_token_s : report_.decode_s) += seconds;
  }

 private:
  void roll() {
    const int64_t kept = std::min(half(), int64_t(tokens_.size()));
    pending_.assign(tokens_.end() - kept, tokens_.end());
    decoder_.reset(sequence_);
    if (std::exchange(has_rolled_, true)) return;
    tell(
        fmt::format("after {} new tokens, the context of {} tokens is full (model.seq_len): the "
                    "model forgets all but the last {} tokens, and again whenever it is full",
                    report_.new_tokens, decoder_.capacity(), kept));
  }

  int64_t half() const { return std::max<int64_t>(1, decoder_.capacity() / 2); }
  void tell(const std::string& sentence) const {
    if (calls_.note) calls_.note(sentence);
  }

  Decoder& decoder_;
  int64_t sequence_;
  int32_t end_of_text_;
  int64_t num_tokens_;
  GenerateCalls calls_;
  TokenSampler sampler_;
  std::vector<int32_t> tokens_, pending_;
  GenerateReport report_;
  bool has_ended_ = false, has_rolled_ = false;
};

// The texts that are generated at once.
class TextsAtOnce {
 public:
  TextsAtOnce(Ctx& ctx, Decoder& decoder) : ctx_(ctx), decoder_(decoder) {
    for (auto* list : {&alone_, &together_}) list->reserve(size_t(decoder.num_sequences()));
    next_.reserve(size_t(decoder.num_sequences()));
  }

  // Draws a token for each text. A prompt gets a call of its own: its tokens already share each
  // read of the weights.
  void step(std::span<const std::unique_ptr<GeneratedText>> texts) {
    alone_.clear();
    together_.clear();
    for (const std::unique_ptr<GeneratedText>& text : texts) {
      if (text == nullptr) continue;
      (text->next().tokens.size() > 1 ? alone_ : together_).push_back(text.get());
    }
    for (GeneratedText*& text : alone_) append({&text, 1});
    if (!together_.empty()) append(together_);
  }

 private:
  void append(std::span<GeneratedText* const> texts) {
    const int64_t begin_ns = monotonic_ns();
    next_.clear();
    for (GeneratedText* text : texts) next_.push_back(text->next());
    decoder_.append(ctx_, next_);
    for (size_t k = 0; k < texts.size(); ++k) texts[k]->draw(decoder_.logits(int64_t(k)));
    const double seconds = double(monotonic_ns() - begin_ns) * 1e-9 / double(texts.size());
    for (GeneratedText* text : texts) text->add_time(seconds);
  }

  Ctx& ctx_;
  Decoder& decoder_;
  std::vector<GeneratedText*> alone_, together_;
  std::vector<NextTokens> next_;
};

}  // namespace

std::vector<GenerateReport> generate(Ctx& ctx, Decoder& decoder, const Tokenizer& tokenizer,
                                     std::vector<GenerateRequest> requests, int64_t num_tokens) {
  const auto B = size_t(decoder.num_sequences());
  std::vector<GenerateReport> reports(requests.size());
  std::vector<std::unique_ptr<GeneratedText>> texts(B);  // of the decoder's sequences
  std::vector<size_t> request_of(B);
  TextsAtOnce at_once(ctx, decoder);
  size_t num_begun = 0, num_ended = 0;
  // If the text of sequence s is complete, ends it and begins the next one there; again if that is
  // complete at once (num_tokens = 0).
  const auto renew = [&](size_t s) {
    while (true) {
      if (texts[s] != nullptr) {
        if (!texts[s]->has_ended()) return;
        texts[s]->end();
        reports[request_of[s]] = texts[s]->report();
        texts[s].reset();
        ++num_ended;
      }
      if (num_begun == requests.size()) return;
      request_of[s] = num_begun;
      texts[s] = std::make_unique<GeneratedText>(decoder, int64_t(s), tokenizer,
                                                 std::move(requests[num_begun++]), num_tokens);
    }
  };
  while (true) {
    for (size_t s = 0; s < B; ++s) renew(s);
    if (num_ended == requests.size()) return reports;
    at_once.step(texts);
  }
}

}  // namespace trireme
