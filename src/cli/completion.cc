#include "cli/completion.h"

#include <fmt/format.h>

#include <functional>

#include "schema/run_config_fields.h"

namespace trireme {
namespace {

using Visit = std::function<void(const Command&, const std::vector<std::string>&)>;

// Visits every node of the tree with the names that lead to it, without "trireme".
void visit_tree(const Command& command, std::vector<std::string> path, const Visit& visit) {
  visit(command, path);
  for (const Command& subcommand : command.subcommands) {
    path.push_back(subcommand.name);
    visit_tree(subcommand, path, visit);
    path.pop_back();
  }
}

std::string config_keys() {
  RunConfig config;
  std::string words;
  for (const ConfigField& field : config_fields(config)) {
    words += (words.empty() ? "" : " ") + field.key() + "=";
  }
  return words;
}

std::vector<std::string> spellings(const Option& option) {
  std::vector<std::string> names = {"--" + option.name};
  if (option.letter) names.push_back(std::string("-") + option.letter);
  return names;
}

// Returns the bash words for the values of an option or argument.
std::string bash_values(const std::vector<std::string>& choices, Completion completion) {
  if (!choices.empty()) {
    return fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$word\"))", fmt::join(choices, " "));
  }
  switch (completion) {
    case Completion::File:
      return "COMPREPLY=($(compgen -f -- \"$word\")); compopt -o filenames";
    case Completion::Folder:
      return "COMPREPLY=($(compgen -d -- \"$word\")); compopt -o filenames";
    case Completion::ConfigKey:
      return "COMPREPLY=($(compgen -W \"$_trireme_keys\" -- \"$word\")); compopt -o nospace";
    case Completion::None:
      return "COMPREPLY=()";
  }
  return "";
}

// Completes a key's value after "=", which bash treats as a separate word.
std::string bash_key_values() {
  RunConfig config;
  std::string cases;
  for (const ConfigField& field : config_fields(config)) {
    std::string words;
    for (const std::string_view name : field.choices) words += fmt::format("{} ", name);
    if (std::holds_alternative<bool*>(field.value)) words = "true false";
    if (words.empty()) continue;
    cases += fmt::format("      {}) COMPREPLY=($(compgen -W '{}' -- \"$word\")) ;;\n", field.key(),
                         words);
  }
  return fmt::format(
      "  [[ $word == '=' ]] && {{ before='='; word=''; COMP_CWORD=$((COMP_CWORD + 1)); }}\n"
      "  if [[ $before == '=' ]]; then\n    COMPREPLY=()\n"
      "    case \"${{COMP_WORDS[COMP_CWORD-2]}}\" in\n{}    esac\n    return\n  fi\n",
      cases);
}

std::string bash_script(const Command& root) {
  std::string script = fmt::format(
      "# bash completion of trireme: source <(trireme completion bash)\n"
      "_trireme_keys='{}'\n"
      "_trireme() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} path=''\n"
      "  local i\n"
      "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
      "    case \"$path ${{COMP_WORDS[i]}}\" in\n",
      config_keys());
  std::string known;
  visit_tree(root, {}, [&](const Command&, const std::vector<std::string>& path) {
    if (path.empty()) return;
    known += fmt::format("{}' {}'", known.empty() ? "" : "|", fmt::join(path, " "));
  });
  script +=
      fmt::format("      {}) path=\"$path ${{COMP_WORDS[i]}}\" ;;\n    esac\n  done\n", known);
  script += bash_key_values();
  script += "  COMPREPLY=()\n  case \"$path\" in\n";
  visit_tree(root, {}, [&](const Command& command, const std::vector<std::string>& path) {
    std::string names;
    for (const std::string& name : path) names += " " + name;
    script += fmt::format("    '{}')\n      case \"$before\" in\n", names);
    std::string words = "--help";
    for (const Option& option : command.options) {
      words += " --" + option.name;
      if (is_flag(option)) continue;
      script += fmt::format("        {}) {}{}; return{} ;;\n", fmt::join(spellings(option), "|"),
                            may_lack_value(option) ? "if [[ $word != -* ]]; then " : "",
                            bash_values(option.choices, option.completion),
                            may_lack_value(option) ? "; fi" : "");
    }
    script += "      esac\n";
    for (const Command& subcommand : command.subcommands) words += " " + subcommand.name;
    script += fmt::format(
        "      if {}; then\n"
        "        COMPREPLY=($(compgen -W '{}' -- \"$word\"))\n",
        command.subcommands.empty() ? "[[ $word == -* ]]" : "true", words);
    if (!command.arguments.empty()) {
      const Argument& argument = command.arguments.back();
      script += fmt::format("      else\n        {}\n",
                            bash_values(argument.choices, argument.completion));
    }
    script += "      fi ;;\n";
  });
  return script + "  esac\n}\ncomplete -F _trireme trireme\n";
}

// Quotes text in single quotes for zsh and fish.
std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string zsh_action(const std::vector<std::string>& choices, Completion completion) {
  if (!choices.empty()) return fmt::format("({})", fmt::join(choices, " "));
  switch (completion) {
    case Completion::File:
      return "_files";
    case Completion::Folder:
      return "_files -/";
    case Completion::ConfigKey:
      return "_trireme_keys";
    case Completion::None:
      return " ";
  }
  return "";
}

// Escapes colons and brackets, which have a meaning for _arguments.
std::string zsh_doc(const std::string& doc) {
  std::string out;
  for (const char c : doc) {
    if (c == ':' || c == '[' || c == ']' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_function_name(const std::vector<std::string>& path) {
  return fmt::format("_trireme{}{}", path.empty() ? "" : "_", fmt::join(path, "_"));
}

std::string zsh_script(const Command& root) {
  std::string script = fmt::format(
      "#compdef trireme\n# zsh completion of trireme: source <(trireme completion zsh)\n"
      "_trireme_keys() {{ compadd -S '' -- {} }}\n",
      config_keys());
  visit_tree(root, {}, [&](const Command& command, const std::vector<std::string>& path) {
    script += fmt::format("{}() {{\n  local line state\n  _arguments -C \\\n    {}",
                          zsh_function_name(path), shell_quoted("--help[show help]"));
    for (const Option& option : command.options) {
      for (const std::string& name : spellings(option)) {
        std::string spec =
            (is_repeatable(option.target) ? "*" : "") + name + "[" + zsh_doc(option.doc) + "]";
        if (!is_flag(option)) {
          spec += (may_lack_value(option) ? "::" : ":") + zsh_doc(option.value_name) + ":" +
                  zsh_action(option.choices, option.completion);
        }
        script += " \\\n    " + shell_quoted(spec);
      }
    }
    for (const Argument& argument : command.arguments) {
      const bool many = is_repeatable(argument.target);
      script += " \\\n    " + shell_quoted((many ? "*:" : ":") + zsh_doc(argument.name) + ":" +
                                           zsh_action(argument.choices, argument.completion));
    }
    if (command.subcommands.empty()) {
      script += "\n}\n";
      return;
    }
    std::string names;
    std::string cases;
    for (const Command& subcommand : command.subcommands) {
      names +=
          fmt::format("{}\\:{}", subcommand.name, shell_quoted(zsh_doc(subcommand.summary))) + " ";
      std::vector<std::string> below = path;
      below.push_back(subcommand.name);
      cases += fmt::format("    {}) {} ;;\n", subcommand.name, zsh_function_name(below));
    }
    script += fmt::format(" \\\n    \"1:command:(({}))\" '*::argument:->rest'\n", names);
    script += fmt::format("  case $line[1] in\n{}  esac\n}}\n", cases);
  });
  // When zsh loads the script from $fpath, the whole script is the body of _trireme at its first
  // call.
  return script +
         "if [[ ${funcstack[1]} == _trireme ]]; then _trireme \"$@\"; "
         "else compdef _trireme trireme; fi\n";
}

std::string fish_script(const Command& root) {
  std::string script =
      "# fish completion of trireme: trireme completion fish | source\n"
      "complete -c trireme -f\n";
  visit_tree(root, {}, [&](const Command& command, const std::vector<std::string>& path) {
    std::string condition = path.empty() ? "__fish_use_subcommand" : "";
    for (const std::string& name : path) {
      condition += (condition.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + name);
    }
    std::vector<std::string> names;
    for (const Command& subcommand : command.subcommands) names.push_back(subcommand.name);
    std::string fresh = condition;
    if (!path.empty() && !names.empty()) {
      fresh += fmt::format("; and not __fish_seen_subcommand_from {}", fmt::join(names, " "));
    }
    for (const Command& subcommand : command.subcommands) {
      script += fmt::format("complete -c trireme -n {} -a {} -d {}\n", shell_quoted(fresh),
                            subcommand.name, shell_quoted(subcommand.summary));
    }
    for (const Option& option : command.options) {
      script += fmt::format("complete -c trireme -n {} -l {}{} -d {}", shell_quoted(condition),
                            option.name, option.letter ? fmt::format(" -s {}", option.letter) : "",
                            shell_quoted(option.doc));
      if (!is_flag(option) && !may_lack_value(option)) script += " -r";
      if (!option.choices.empty()) {
        script += fmt::format(" -f -a {}",
                              shell_quoted(fmt::format("{}", fmt::join(option.choices, " "))));
      } else if (option.completion == Completion::ConfigKey) {
        script += " -f -a " + shell_quoted(config_keys());
      } else if (option.completion != Completion::None) {
        script += " -F";
      }
      script += "\n";
    }
    for (const Argument& argument : command.arguments) {
      if (!argument.choices.empty()) {
        script += fmt::format("complete -c trireme -n {} -a {}\n", shell_quoted(condition),
                              shell_quoted(fmt::format("{}", fmt::join(argument.choices, " "))));
      } else if (argument.completion != Completion::None) {
        script += fmt::format("complete -c trireme -n {} -F\n", shell_quoted(condition));
      }
    }
  });
  return script;
}

}  // namespace

Result<std::string> completion_script(const Command& root, std::string_view shell) {
  if (shell == "bash") return bash_script(root);
  if (shell == "zsh") return zsh_script(root);
  if (shell == "fish") return fish_script(root);
  return Error{ErrorKind::Usage, fmt::format("{} is unknown; use bash, zsh or fish", shell)};
}

}  // namespace trireme
