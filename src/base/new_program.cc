#include "base/new_program.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

namespace trireme {
namespace {

std::vector<std::string> environment_with(const NewProgram::Variables& variables) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    const bool is_replaced = std::any_of(variables.begin(), variables.end(),
                                         [&](const auto& one) { return one.first == name; });
    if (!is_replaced) all.emplace_back(text);
  }
  for (const auto& [name, value] : variables) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

NewProgram::NewProgram(std::vector<std::string> words, const Variables& variables)
    : words_(std::move(words)),
      environment_(environment_with(variables)),
      word_pointers_(pointers_to(words_)),
      environment_pointers_(pointers_to(environment_)) {}

void NewProgram::become(const char* path) const {
  ::execvpe(path, word_pointers_.data(), environment_pointers_.data());
}

}  // namespace trireme
