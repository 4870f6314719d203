#include "data/chat.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/bounded_json.h"

namespace trireme {
namespace {

using nlohmann::json;

constexpr std::string_view kRole = "{role}";
constexpr std::string_view kContent = "{content}";

std::string with_line_breaks(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_break = text.substr(i, 2) == "\\n";
    result += is_break ? '\n' : text[i];
    if (is_break) ++i;
  }
  return result;
}

// Returns the content of a message, which is a string or a list of parts. A part that is not text
// is an error.
Result<std::string> content_of(const json& message) {
  const auto content = message.find("content");
  if (content == message.end()) return damaged("a message has no \"content\"");
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) return damaged("\"content\" of a message is neither text nor a list");
  std::string text;
  for (const json& part : *content) {
    const bool is_text = part.is_object() && part.contains("text") && part["text"].is_string();
    if (!is_text) return damaged("\"content\" of a message has a part that is not text");
    text += part["text"].get<std::string>();
  }
  return text;
}

Result<std::vector<ChatPart>> parse_messages(const json& messages, const ChatTemplate& chat) {
  if (!messages.is_array() || messages.empty())
    return damaged("\"messages\" is not a list of messages");
  std::vector<ChatPart> parts;
  for (const json& message : messages) {
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
      return damaged("a message has no \"role\"");
    const std::string role = message["role"].get<std::string>();
    TRIREME_TRY(content, content_of(message));
    const bool is_counted = role == "assistant";
    parts.push_back({chat.before(role), false, true});
    parts.push_back({std::move(content), is_counted, false});
    parts.push_back({chat.after(), is_counted, true});
  }
  return parts;
}

}  // namespace

Result<ChatTemplate> ChatTemplate::parse(std::string_view text) {
  ChatTemplate chat;
  const size_t content = text.find(kContent);
  if (content == std::string_view::npos ||
      text.find(kContent, content + 1) != std::string_view::npos) {
    return usage(
        fmt::format("--template \"{}\" must have {} once, such as \"{}\"", text, kContent, kUsual));
  }
  chat.before_ = with_line_breaks(text.substr(0, content));
  chat.after_ = with_line_breaks(text.substr(content + kContent.size()));
  if (chat.after_.find(kRole) != std::string::npos) {
    return usage(fmt::format("--template \"{}\" must have {} before {}", text, kRole, kContent));
  }
  return chat;
}

std::string ChatTemplate::before(std::string_view role) const {
  std::string text = before_;
  const size_t place = text.find(kRole);
  if (place != std::string::npos) text.replace(place, kRole.size(), role);
  return text;
}

Result<std::vector<ChatPart>> parse_chat(std::string_view line, const ChatTemplate& chat) {
  TRIREME_TRY(object, parse_bounded_json(line));
  if (!object.is_object()) return damaged("not a JSON object");
  if (const auto messages = object.find("messages"); messages != object.end()) {
    return parse_messages(*messages, chat);
  }
  std::vector<ChatPart> parts;
  for (const char* key : {"prompt", "completion"}) {
    const auto text = object.find(key);
    if (text == object.end())
      return damaged("has neither \"messages\" nor \"prompt\" and \"completion\"");
    if (!text->is_string()) return damaged(fmt::format("\"{}\" is not a string", key));
    parts.push_back({text->get<std::string>(), parts.size() == 1, false});
  }
  return parts;
}

}  // namespace trireme
