#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace trireme {
namespace {

constexpr int kLeftColumn = 26;

std::string spelling(const Option& option) {
  std::string text = option.letter ? fmt::format("-{}, ", option.letter) : "";
  text += "--" + option.name;
  if (is_flag(option)) return text;
  return text + (may_lack_value(option) ? " [" + option.value_name + "]" : " " + option.value_name);
}

std::string doc_of(const std::string& doc, const std::vector<std::string>& choices) {
  return choices.empty() ? doc : fmt::format("{}: {}", doc, fmt::join(choices, ", "));
}

// Returns the value of the target before parsing, or "" if it means nothing or is part of the doc.
std::string default_of(const Option& option) {
  if (option.doc.find("default") != std::string::npos) return "";
  if (const auto* text = std::get_if<std::string*>(&option.target)) return **text;
  const auto number = [&](const auto* value) {
    const bool is_described =
        value == nullptr || (**value == 0 && option.doc.find("0:") != std::string::npos);
    return is_described ? std::string() : fmt::format("{}", **value);
  };
  return number(std::get_if<int*>(&option.target)) + number(std::get_if<int64_t*>(&option.target)) +
         number(std::get_if<uint64_t*>(&option.target)) +
         number(std::get_if<double*>(&option.target));
}

std::string doc_of(const Option& option) {
  std::string doc = doc_of(option.doc, option.choices);
  if (const std::string value = default_of(option); !value.empty()) {
    doc += fmt::format(" (default {})", value);
  }
  if (is_repeatable(option.target)) doc += " (may be repeated)";
  return doc;
}

// Breaks `text` into lines of at most `columns`. The first one begins at `column`, the others at
// `indent`.
std::string wrap(const std::string& text, int column, int indent, int columns) {
  std::string out;
  size_t begin = 0;
  bool fresh = true;
  while (begin < text.size()) {
    const size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    const int width = static_cast<int>(word.size());
    if (!fresh && column + 1 + width > columns) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
      fresh = true;
    }
    out += (fresh ? "" : " ") + word;
    column += width + (fresh ? 0 : 1);
    fresh = false;
    if (end < text.size() && text[end] == '\n') {
      out += "\n" + std::string(indent, ' ');
      column = indent;
      fresh = true;
    }
    begin = end + 1;
  }
  return out + "\n";
}

std::string row(const std::string& left, const std::string& right, int columns) {
  std::string line = "  " + left;
  if (line.size() + 2 > kLeftColumn) {
    line += "\n" + std::string(kLeftColumn, ' ');
  } else {
    line.resize(kLeftColumn, ' ');
  }
  return line + wrap(right, kLeftColumn, kLeftColumn, columns);
}

std::string argument_spelling(const Argument& argument) {
  const std::string name = argument.name + (is_repeatable(argument.target) ? "..." : "");
  return argument.required ? name : "[" + name + "]";
}

// Calls `visit` for every command that can be run, in the order of the table.
void visit_commands(const Command& command, const std::string& path,
                    const std::function<void(const Command&, const std::string&)>& visit) {
  if (command.run) visit(command, path);
  for (const Command& subcommand : command.subcommands) {
    visit_commands(subcommand, path + " " + subcommand.name, visit);
  }
}

std::string troff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) {
      out += std::string("\\&") + c;
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string usage_line(const Command& command, const std::string& path) {
  std::string line = path;
  if (!command.run) return line + " COMMAND [arguments]";
  for (const Argument& argument : command.arguments) line += " " + argument_spelling(argument);
  if (!command.options.empty()) line += " [options]";
  return line;
}

std::string help_text(const Command& command, const std::string& path, int columns) {
  std::string text = fmt::format("Usage: {}\n\n", usage_line(command, path));
  text += wrap(command.summary, 0, 0, columns);
  if (!command.details.empty()) text += "\n" + wrap(command.details, 0, 0, columns);
  if (!command.subcommands.empty()) text += "\nCommands:\n";
  for (const Command& subcommand : command.subcommands) {
    text += row(subcommand.name, subcommand.summary, columns);
  }
  if (!command.arguments.empty()) text += "\nArguments:\n";
  for (const Argument& argument : command.arguments) {
    text += row(argument.name, doc_of(argument.doc, argument.choices), columns);
  }
  text += "\nOptions:\n";
  for (const Option& option : command.options) {
    text += row(spelling(option), doc_of(option), columns);
  }
  text += row("-h, --help", "show this text", columns);
  if (!command.examples.empty()) text += "\nExamples:\n";
  for (const std::string& example : command.examples) text += "  " + example + "\n";
  return text;
}

std::string man_page(const Command& root, const std::string& version) {
  std::string text = fmt::format(
      ".TH TRIREME 1 \"\" \"trireme {}\" \"User Commands\"\n.SH NAME\ntrireme \\- {}\n"
      ".SH SYNOPSIS\n.B trireme\n.I COMMAND\n[arguments]\n.SH DESCRIPTION\n{}\n.SH COMMANDS\n",
      version, troff(root.summary), troff(root.details));
  visit_commands(root, root.name, [&](const Command& command, const std::string& path) {
    if (&command == &root) return;
    text += fmt::format(".SS {}\n{}\n", troff(usage_line(command, path)), troff(command.summary));
    if (!command.details.empty()) text += fmt::format(".PP\n{}\n", troff(command.details));
    for (const Argument& argument : command.arguments) {
      text += fmt::format(".TP\n.I {}\n{}\n", troff(argument.name),
                          troff(doc_of(argument.doc, argument.choices)));
    }
    for (const Option& option : command.options) {
      text += fmt::format(".TP\n.B {}\n{}\n", troff(spelling(option)), troff(doc_of(option)));
    }
    for (const std::string& example : command.examples) {
      text += fmt::format(".PP\n.nf\n{}\n.fi\n", troff(example));
    }
  });
  text +=
      ".SH EXIT STATUS\n0 done, 2 wrong usage or configuration, 3 the plan does not fit or cannot "
      "be, 4 a file is damaged or unreadable, 5 a rank, device or link failed, 130 stopped by a "
      "signal after saving.\n";
  return text;
}

std::string command_markdown(const Command& root) {
  std::string text;
  visit_commands(root, root.name, [&](const Command& command, const std::string& path) {
    if (&command == &root) return;
    text += fmt::format("\n### `{}`\n\n{}\n", usage_line(command, path), command.summary);
    if (!command.details.empty()) text += "\n" + command.details + "\n";
    if (!command.arguments.empty() || !command.options.empty()) text += "\n| | |\n|---|---|\n";
    const auto cell = [](std::string words) {
      for (size_t at = 0; (at = words.find('|', at)) != std::string::npos; at += 2) {
        words.insert(at, "\\");
      }
      return words;
    };
    for (const Argument& argument : command.arguments) {
      text += fmt::format("| `{}` | {} |\n", argument.name,
                          cell(doc_of(argument.doc, argument.choices)));
    }
    for (const Option& option : command.options) {
      text += fmt::format("| `{}` | {} |\n", spelling(option), cell(doc_of(option)));
    }
    for (const std::string& example : command.examples) {
      text += fmt::format("\n    {}\n", example);
    }
  });
  return text;
}

}  // namespace trireme
