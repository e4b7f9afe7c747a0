#include "propagator/core/plain_text.h"

#include <gtest/gtest.h>

namespace propagator {
namespace {

TEST(CorePlainText, LettersOfAnyScriptStay) {
  for (const char* text : {"", "a b", "`'\"\\<script>$@%",
                           "é θ 雪 🙂 \u00a0", "\ufffd", "\U0010ffff"}) {
    EXPECT_EQ(plain_text(text), text);
    EXPECT_TRUE(is_plain_text(text)) << text;
  }
}

TEST(CorePlainText, ControlCharactersAreReplaced) {
  for (const std::string& control :
       {std::string("\n"), std::string("\r"), std::string("\t"),
        std::string("\x1b"), std::string("\x7f"), std::string(1, '\0')}) {
    EXPECT_EQ(plain_text("a" + control + "b"), "a\ufffdb");
    EXPECT_FALSE(is_plain_text(control));
  }
  EXPECT_FALSE(is_plain_text("\u009b"));  // as an escape and a bracket
  EXPECT_EQ(plain_text("a\n\tb\r", "\n\t"), "a\n\tb\ufffd");
  EXPECT_TRUE(is_plain_text("a\nb", "\n"));
}

TEST(CorePlainText, WhatIsNotUtf8IsReplaced) {
  for (const char* bytes : {
           "\xff", "\x80", "\xc3", "\xe2\x82", "\xf0\x9f\x99",  // cut short
           "\xc0\xaf", "\xe0\x80\xaf",                          // too long
           "\xed\xa0\x80", "\xf4\x90\x80\x80",                  // not Unicode
       }) {
    const auto plain = plain_text(bytes);
    EXPECT_FALSE(is_plain_text(bytes)) << plain;
    EXPECT_TRUE(is_plain_text(plain)) << plain;
    EXPECT_TRUE(plain.starts_with("\ufffd")) << plain;
  }
  EXPECT_EQ(plain_text("a\xc3(b"), "a\ufffd(b");
}

}  // namespace
}  // namespace propagator
