#include "train/generate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "comm/local/sole_rank.h"
#include "device/buffer.h"
#include "kernels/kernel_table.h"
#include "kernels/own_stream.h"
#include "models/init.h"
#include "tokenizer/byte_tokenizer.h"

namespace trireme {
namespace {

constexpr int64_t kContext = 8;

ModelSpec byte_model() {
  ModelConfig config;
  config.layers = 1;
  config.d_model = 16;
  config.heads = 2;
  config.vocab_size = 257;
  config.seq_len = kContext;
  config.init_stddev = 0.5;
  return *resolve_model(config, 0);
}

// It holds what a generation has given to its caller.
struct Generated {
  std::vector<int32_t> tokens;
  std::vector<std::string> notes;
  GenerateReport report;
  bool has_ended = false;
};

class Generation : public testing::Test {
 protected:
  Generation() {
    for (const ParamSpec& param : params_) {
      table_.add(param.name, param.shape, DType::F32, param.adjoins_previous);
    }
    memory_ = Buffer::allocate(table_.bytes());
    init_params(ctx_, params_, frame(), frame(), 3);
    decoder_ = std::make_unique<Decoder>(byte_model(), frame(), DType::F32);
  }
  Frame frame() const { return Frame(table_, memory_.data()); }

  // Takes the likeliest token each time, so a text depends on what the model has read alone.
  Generated generated(std::vector<int32_t> prompt, int64_t num_tokens) {
    return generated_at_once(*decoder_, {std::move(prompt)}, num_tokens, 0.0).front();
  }

  // The k-th prompt has the seed k. A text ends with the token 'a', too.
  std::vector<Generated> generated_at_once(Decoder& decoder,
                                           const std::vector<std::vector<int32_t>>& prompts,
                                           int64_t num_tokens, double temperature,
                                           uint64_t first_seed = 0) {
    std::vector<Generated> results(prompts.size());
    std::vector<GenerateRequest> requests;
    for (size_t k = 0; k < prompts.size(); ++k) {
      Generated& result = results[k];
      const GenerateCalls calls{.emit =
                                    [&result](int32_t token) {
                                      EXPECT_FALSE(result.has_ended);
                                      result.tokens.push_back(token);
                                      return token != 'a';
                                    },
                                .note = [&](const std::string& n) { result.notes.push_back(n); },
                                .end = [&result] { result.has_ended = true; }};
      requests.push_back({prompts[k], {.temperature = temperature, .seed = first_seed + k}, calls});
    }
    const std::vector<GenerateReport> reports =
        generate(ctx_, decoder, tokenizer_, std::move(requests), num_tokens);
    for (size_t k = 0; k < prompts.size(); ++k) {
      results[k].report = reports[k];
      EXPECT_TRUE(results[k].has_ended);
    }
    return results;
  }

  ByteTokenizer tokenizer_;
  OwnStream stream_{1};
  SoleRank rank_;
  Ctx ctx_{stream_,       reference_kernels(), rank_.group(),
           rank_.group(), rank_.group(),       rank_.group()};
  std::vector<ParamSpec> params_ = param_table(byte_model(), whole_model(byte_model()));
  TensorTable table_;
  Buffer memory_;
  std::unique_ptr<Decoder> decoder_;
};

std::vector<int32_t> some_prompt(int64_t num_tokens) {
  std::vector<int32_t> tokens;
  for (int64_t t = 0; t < num_tokens; ++t) tokens.push_back(int32_t(t * 37 % 256));
  return tokens;
}

// A prompt that fits is read whole. Of any other one, the model reads what fills half of its
// context, and the caller is told all three numbers.
TEST_F(Generation, APromptBeyondTheContextIsItsLastHalfContextAndTheCallerIsTold) {
  for (int64_t length = 1; length <= 3 * kContext; ++length) {
    SCOPED_TRACE(length);
    const std::vector<int32_t> prompt = some_prompt(length);
    const bool fits = length <= kContext;
    const int64_t kept = fits ? length : kContext / 2;
    const Generated whole = generated(prompt, 1);
    EXPECT_EQ(whole.tokens, generated({prompt.end() - kept, prompt.end()}, 1).tokens);
    EXPECT_EQ(whole.report.prompt_tokens, kept);
    ASSERT_EQ(whole.notes.size(), fits ? 0 : 1);
    if (fits) continue;
    for (const int64_t number : {length, kContext, kept}) {
      EXPECT_NE(whole.notes[0].find(fmt::format(" {} ", number)), std::string::npos)
          << whole.notes[0];
    }
  }
}

// A context of 8 tokens that holds a prompt of 3 is full after 5 new tokens, and then after every
// fourth one. The text continues as if its last 4 tokens were a new prompt.
TEST_F(Generation, AFullContextIsToldOnceAndItsLaterHalfGoesOn) {
  const std::vector<int32_t> prompt = some_prompt(3);
  EXPECT_TRUE(generated(prompt, 6).notes.empty());
  const Generated once = generated(prompt, 7);
  ASSERT_EQ(once.notes.size(), 1);
  EXPECT_NE(once.notes[0].find("after 6 new tokens"), std::string::npos) << once.notes[0];
  EXPECT_NE(once.notes[0].find("the last 4 tokens"), std::string::npos) << once.notes[0];
  const Generated often = generated(prompt, 40);
  EXPECT_EQ(often.notes, once.notes);
  ASSERT_GE(often.tokens.size(), 11u);
  const std::vector<int32_t> half(often.tokens.begin() + 2, often.tokens.begin() + 6);
  EXPECT_EQ(generated(half, 5).tokens,
            std::vector<int32_t>(often.tokens.begin() + 6, often.tokens.begin() + 11));
}

TEST_F(Generation, TimesAndCountsAreThoseOfTheTokens) {
  const Generated none = generated(some_prompt(3), 0);
  EXPECT_EQ(none.report.new_tokens, 0);
  EXPECT_EQ(none.report.first_token_s, 0.0);
  const Generated one = generated({}, 1);
  EXPECT_EQ(one.report.prompt_tokens, 1);  // <|endoftext|>
  EXPECT_GT(one.report.first_token_s, 0.0);
  EXPECT_EQ(one.report.decode_s, 0.0);
  const Generated more = generated(some_prompt(3), 20);
  EXPECT_EQ(more.report.new_tokens, int64_t(more.tokens.size()));
  EXPECT_GE(more.report.decoded_tokens, more.report.new_tokens - 1);
  EXPECT_LE(more.report.decoded_tokens, more.report.new_tokens);
  EXPECT_GT(more.report.decode_s, 0.0);
}

// Texts of different lengths begin, become full and end at different times, and no sequence of the
// decoder knows what the others have.
TEST_F(Generation, SeveralAtOnceAreTheTextsThatEachIsAlone) {
  std::vector<std::vector<int32_t>> prompts;
  for (const int64_t length : {3, 1, 0, 12, 8, 2, 5, 7, 4}) prompts.push_back(some_prompt(length));
  for (const int64_t num_tokens : {0, 1, 5, 60}) {
    for (const int64_t num_sequences : {1, 2, 3, 8}) {
      SCOPED_TRACE(fmt::format("{} tokens, {} at once", num_tokens, num_sequences));
      Decoder several(byte_model(), frame(), DType::F32, num_sequences);
      const auto together = generated_at_once(several, prompts, num_tokens, 0.9);
      for (size_t k = 0; k < prompts.size(); ++k) {
        const Generated alone =
            generated_at_once(*decoder_, {prompts[k]}, num_tokens, 0.9, k).front();
        EXPECT_EQ(together[k].tokens, alone.tokens) << k;
        EXPECT_EQ(together[k].notes, alone.notes) << k;
        EXPECT_EQ(together[k].report.prompt_tokens, alone.report.prompt_tokens) << k;
        EXPECT_EQ(together[k].report.new_tokens, alone.report.new_tokens) << k;
        EXPECT_EQ(together[k].report.decoded_tokens, alone.report.decoded_tokens) << k;
        EXPECT_EQ(together[k].report.decode_s > 0.0, alone.report.decode_s > 0.0) << k;
      }
    }
  }
}

}  // namespace
}  // namespace trireme
