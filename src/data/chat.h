#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trireme {

// The text before and after the content of each message of a conversation.
class ChatTemplate {
 public:
  // ChatML, which most chat models use.
  static constexpr std::string_view kUsual = "<|im_start|>{role}\\n{content}<|im_end|>\\n";

  // `text` must contain {content} once, and may contain {role} before it. The two characters \n
  // stand for a line break. A Usage error quotes a text that breaks these rules.
  static Result<ChatTemplate> parse(std::string_view text);

  // The texts before and after the content of a message.
  std::string before(std::string_view role) const;
  const std::string& after() const { return after_; }

 private:
  std::string before_;  // with {role}
  std::string after_;
};

// A part of a conversation that is encoded by itself.
struct ChatPart {
  std::string text;
  bool is_counted = false;   // the loss counts the tokens of this part
  bool is_template = false;  // the text of a special token becomes this token
};

// Parses a conversation, which is a JSON object in one of two forms:
// - "prompt" and "completion", two strings: the loss counts the completion.
// - "messages", a list of objects with "role" and "content": the loss counts the content of the
//   role "assistant" and the text that the template writes after it.
// A Damaged error says what the line lacks.
Result<std::vector<ChatPart>> parse_chat(std::string_view line, const ChatTemplate& chat);

}  // namespace trireme
