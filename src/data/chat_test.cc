#include "data/chat.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "data/prepare.h"
#include "data/token_source.h"
#include "tokenizer/byte_tokenizer.h"

namespace trireme {
namespace {

constexpr const char* kMessages =
    R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"},)"
    R"( {"role": "user", "content": [{"type": "text", "text": "Bye"}]}]})";
constexpr const char* kPrompt = R"({"completion": "4", "prompt": "2 + 2 = ", "id": 7})";

std::string texts(const std::vector<ChatPart>& parts, bool is_counted) {
  std::string text;
  for (const ChatPart& part : parts) text += part.is_counted == is_counted ? part.text : "|";
  return text;
}

TEST(Chat, TheLossCountsWhatAnAssistantSaysAndWhatEndsIt) {
  const auto chat = ChatTemplate::parse(ChatTemplate::kUsual).value();
  const auto parts = parse_chat(kMessages, chat);
  ASSERT_TRUE(parts.ok()) << parts.error().message;
  EXPECT_EQ(texts(*parts, true), "||||Hello<|im_end|>\n|||");
  EXPECT_EQ(texts(*parts, false),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n||<|im_start|>user\n"
            "Bye<|im_end|>\n");
  const auto prompt = parse_chat(kPrompt, chat);
  ASSERT_TRUE(prompt.ok()) << prompt.error().message;
  EXPECT_EQ(texts(*prompt, false), "2 + 2 = |");
  EXPECT_EQ(texts(*prompt, true), "|4");
}

TEST(Chat, WhatIsNoConversationIsRefusedWithWhatItLacks) {
  const auto chat = ChatTemplate::parse("{role}: {content}\\n").value();
  const std::pair<const char*, const char*> lines[] = {
      {R"({"text": "a"})", "neither \"messages\" nor"},
      {R"({"prompt": "a"})", "neither \"messages\" nor"},
      {R"({"prompt": "a", "completion": 3})", "\"completion\" is not a string"},
      {R"({"messages": []})", "not a list of messages"},
      {R"({"messages": [{"content": "a"}]})", "no \"role\""},
      {R"({"messages": [{"role": "user"}]})", "no \"content\""},
      {R"({"messages": [{"role": "user", "content": [{"image": 1}]}]})", "not text"},
      {"[1]", "not a JSON object"}};
  for (const auto& [line, expected] : lines) {
    const auto refused = parse_chat(line, chat);
    ASSERT_FALSE(refused.ok()) << line;
    EXPECT_NE(refused.error().message.find(expected), std::string::npos) << refused.error().message;
  }
  for (const char* bad : {"", "{role}", "{content}{content}", "{content}{role}"}) {
    EXPECT_FALSE(ChatTemplate::parse(bad).ok()) << bad;
  }
}

class ChatFiles : public testing::Test {
 protected:
  ChatFiles()
      : folder_(std::filesystem::temp_directory_path() /
                ("trireme_chat." + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~ChatFiles() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  Result<PrepareReport> prepare_lines(const std::string& lines, int64_t block_bytes, int threads) {
    std::ofstream(path("chat.jsonl")) << lines;
    ThreadTeam team(threads);
    PrepareOptions options;
    options.input.paths = {path("chat.jsonl")};
    options.input.format = TextFormat::Chat;
    options.out = path("out");
    options.val_fraction = 0.0;
    options.chat_template = "{role}: {content}\\n";
    options.block_bytes = block_bytes;
    return prepare(ByteTokenizer(), options, team);
  }
  std::filesystem::path folder_;
};

TEST_F(ChatFiles, PreparedConversationsHoldAllTextAndCountOnlyAnswers) {
  std::string lines, text, counted;
  for (int k = 0; k < 40; ++k) {
    const std::string number = std::to_string(k);
    lines += R"({"prompt": "q)" + number + R"( ", "completion": "a)" + number + "\"}\n\n";
    text += "q" + number + " a" + number + "\n";
    counted += "a" + number + "\n";
    lines += std::string(kMessages) + "\r\n";
    text += "user: Hi\nassistant: Hello\nuser: Bye\n\n";
    counted += "Hello\n";
  }
  for (const auto& [block, threads] :
       {std::pair{int64_t{1} << 20, 2}, std::pair{int64_t{700}, 1}}) {
    const auto report = prepare_lines(lines, block, threads);
    ASSERT_TRUE(report.ok()) << report.error().message;
    const auto file = TokenFile::open(path("out/train.tok"));
    ASSERT_TRUE(file.ok()) << file.error().message;
    ASSERT_TRUE(file->header().has_loss_mask);
    EXPECT_EQ(file->header().num_documents, 80);
    std::vector<int32_t> tokens(size_t(file->num_tokens())), targets(tokens.size());
    file->read(0, tokens);
    file->read_targets(0, targets);
    std::string all, left;
    const auto character = [](int32_t token) { return token == 256 ? '\n' : char(token); };
    for (size_t t = 0; t < tokens.size(); ++t) {
      all += character(tokens[t]);
      if (targets[t] == kUncountedTarget) continue;
      ASSERT_EQ(targets[t], tokens[t]);
      left += character(targets[t]);
    }
    EXPECT_EQ(all, text);
    EXPECT_EQ(left, counted);
    EXPECT_EQ(report->train_counted, int64_t(counted.size()));
  }
}

TEST_F(ChatFiles, AWrongLineIsNamedAndConversationsWithoutAnswersAreRefused) {
  const std::string good = std::string(kPrompt) + "\n";
  // Blank lines are no conversations but count as lines. Blocks end anywhere.
  for (const int64_t block : {int64_t{1} << 20, int64_t{100}}) {
    for (const std::string& bad : {std::string(R"({"prompt": 1})"), std::string("{no JSON")}) {
      std::string lines;
      for (int k = 0; k < 20; ++k) lines += good + "\n";
      const auto wrong = prepare_lines(lines + bad + "\n" + good, block, 2);
      ASSERT_FALSE(wrong.ok());
      EXPECT_NE(wrong.error().message.find(path("chat.jsonl") + ":41: "), std::string::npos)
          << wrong.error().message;
    }
  }
  const auto silent =
      prepare_lines(R"({"messages": [{"role": "user", "content": "Hi"}]})", 1 << 20, 1);
  ASSERT_FALSE(silent.ok());
  EXPECT_NE(silent.error().message.find("no token would count"), std::string::npos);
}

}  // namespace
}  // namespace trireme
