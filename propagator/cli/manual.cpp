#include <fmt/ranges.h>

#include <iterator>
#include <sstream>

#include "propagator/cli/commands.h"
#include "propagator/cli/written_answers.h"
#include "propagator/core/version.h"

namespace propagator::cli {
namespace {

// A verb, or the program itself, under the words that call it: "data generate".
struct Command {
  std::string words;
  const CLI::App* app;

  std::vector<const CLI::Option*> options() const {
    std::vector<const CLI::Option*> named;
    for (const auto* option : app->get_options()) {
      if (!option->get_lnames().empty()) named.push_back(option);
    }
    return named;
  }
  std::vector<std::string> verbs() const {
    std::vector<std::string> names;
    for (const auto* verb : app->get_subcommands({})) {
      names.push_back(verb->get_name());
    }
    return names;
  }
};

// The program, its verbs, and theirs.
std::vector<Command> all_commands(const CLI::App& program) {
  std::vector<Command> all{{"", &program}};
  for (size_t n = 0; n < all.size(); ++n) {
    for (const auto* verb : all[n].app->get_subcommands({})) {
      const auto before = all[n].words;
      all.push_back(
          {before + (before.empty() ? "" : " ") + verb->get_name(), verb});
    }
  }
  return all;
}

// Text as troff prints it: no line of it is a request, no hyphen is typeset.
std::string troff(const std::string& text) {
  std::string safe;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) safe += "\\&";
    if (c == '\\') {
      safe += "\\e";
    } else if (c == '-') {
      safe += "\\-";
    } else {
      safe += c;
    }
    line_begins = c == '\n';
  }
  return safe;
}

// As it stands, line for line.
std::string troff_lines(const std::string& text) {
  return text.empty() ? "" : ".PP\n.nf\n" + troff(text) + "\n.fi\n";
}

std::string troff_option(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const auto& name : option.get_snames()) names.push_back("-" + name);
  for (const auto& name : option.get_lnames()) names.push_back("--" + name);
  const bool takes_value = option.get_expected_max() > 0;
  return fmt::format(".TP\n.B {}\n{}\n",
                     troff(fmt::format("{}{}", fmt::join(names, ", "),
                                       takes_value ? " VALUE" : "")),
                     troff(option.get_description()));
}

void print_man_page(const CLI::App& program) {
  fmt::print(
      ".TH PROPAGATOR 1 \"\" \"propagator {}\" \"User commands\"\n.SH NAME\n"
      "propagator \\- transformers for physics: train, test, explain, use\n"
      ".SH SYNOPSIS\n.B propagator\n.I VERB\n[\\fIOPTIONS\\fR]\n"
      ".SH DESCRIPTION\n{}\n",
      troff(kVersion), troff(program.get_description()));
  for (const auto& command : all_commands(program)) {
    fmt::print("{}", command.words.empty()
                         ? ".SH OPTIONS\n"
                         : fmt::format(".SH {}\n{}.\n", troff(command.words),
                                       troff(command.app->get_description())));
    for (const auto* option : command.app->get_options()) {
      if (!option->get_positional()) continue;
      fmt::print(".TP\n.I {}\n{}\n", troff(option->get_name(true)),
                 troff(option->get_description()));
    }
    for (const auto* option : command.options()) {
      fmt::print("{}", troff_option(*option));
    }
    if (!command.words.empty()) {
      fmt::print("{}", troff_lines(command.app->get_footer()));
    }
  }
  fmt::print(".SH EXIT STATUS\n{}", troff_lines(program.get_footer()));
}

// The words that may follow: options, and verbs of this one.
std::string words_after(const Command& command) {
  auto words = command.verbs();
  for (const auto* option : command.options()) {
    for (const auto& name : option->get_lnames()) words.push_back("--" + name);
  }
  return fmt::format("{}", fmt::join(words, " "));
}

// A shell function that prints what may follow the words before the cursor,
// which are its arguments; bash and zsh both understand it.
void print_words(const CLI::App& program) {
  fmt::print(
      "_propagator_words() {{\n  local verb= word\n  for word; do\n"
      "    case \"$verb $word\" in\n");
  const auto all = all_commands(program);
  for (const auto& [words, app] : all) {
    if (words.empty()) continue;
    const auto space = words.rfind(' ');
    const bool nested = space != std::string::npos;
    fmt::print("      \"{} {}\") verb=\"{}\" ;;\n",
               nested ? words.substr(0, space) : "", app->get_name(), words);
  }
  fmt::print("    esac\n  done\n  case \"$verb\" in\n");
  for (const auto& command : all) {
    fmt::print("    \"{}\") echo \"{}\" ;;\n", command.words,
               words_after(command));
  }
  fmt::print("  esac\n}}\n");
}

// Where no option and no verb begins so, files are offered.
void print_bash(const CLI::App& program) {
  print_words(program);
  fmt::print(R"(_propagator() {{
  local words current=${{COMP_WORDS[COMP_CWORD]}}
  words=$(_propagator_words "${{COMP_WORDS[@]:1:COMP_CWORD-1}}")
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _propagator propagator
)");
}

void print_zsh(const CLI::App& program) {
  fmt::print("#compdef propagator\n");
  print_words(program);
  fmt::print(R"(_propagator() {{
  compadd -- $(_propagator_words "${{(@)words[2,CURRENT-1]}}")
  _files
}}
if [ "$funcstack[1]" = _propagator ]; then
  _propagator "$@"
else
  compdef _propagator propagator
fi
)");
}

std::string help_of(const Command& command) {
  const auto name = fmt::format(
      "{}{}{}", "propagator", command.words.empty() ? "" : " ", command.words);
  return command.app->get_formatter()->make_help(command.app, name,
                                                 CLI::AppFormatMode::Normal);
}

void print_answer(std::vector<std::string> words, const std::string& last,
                  const std::string& text) {
  words.push_back(last);
  fmt::print("{}{}", answer_heading(words), text);
}

void print_answers(const CLI::App& program) {
  fmt::print("{}{}", answer_heading({}), listed_files());
  for (const auto& command : all_commands(program)) {
    std::istringstream stream(command.words);
    const std::vector<std::string> words{
        std::istream_iterator<std::string>(stream), {}};
    for (const char* last : {"-h", "--help"}) {
      print_answer(words, last, help_of(command));
    }
  }
  print_answer({}, "--version", program.version() + "\n");
  print_answer({}, "list", listed(false));
  print_answer({"list"}, "--json", listed(true));
}

}  // namespace

void add_manual(CLI::App& app, Action& action) {
  const auto what = std::make_shared<std::string>();
  auto* verb = app.add_subcommand(
      "manual", "Print the manual page, or completion of a shell's line");
  verb->add_option(
          "what", *what,
          "man, bash or zsh; answers: what help and lists print, which "
          "the program's start reads")
      ->required()
      ->check(CLI::IsMember({"man", "bash", "zsh", "answers"}));
  verb->footer(
      "Made of the program's own options.\n"
      "Examples:\n"
      "  propagator manual man | man -l -\n"
      "  source <(propagator manual bash)\n"
      "  propagator manual zsh > ~/.zfunc/_propagator    # a folder of $fpath");
  verb->callback([what, &app, &action] {
    action = [what, &app] {
      if (*what == "man") print_man_page(app);
      if (*what == "bash") print_bash(app);
      if (*what == "zsh") print_zsh(app);
      if (*what == "answers") print_answers(app);
      return 0;
    };
  });
}

}  // namespace propagator::cli
