#include "propagator/data/tokenizer.h"

#include "propagator/core/error.h"
#include "propagator/core/random.h"
#include "propagator/data/byte_pairs.h"
#include "testing.h"

namespace propagator::data {
namespace {

using testing::thrown;

std::string random_bytes(int64_t count, int64_t row) {
  const RandomStream stream(3, "bytes");
  std::string bytes;
  for (int64_t n = 0; n < count; ++n) {
    bytes += static_cast<char>(stream.below(256, row, n));
  }
  return bytes;
}

TEST(DataTokenizer, CharactersComeBack) {
  const std::string text = "naïve – 日本 \U0001F600\n";
  const auto characters = characters_of(text);
  EXPECT_EQ(characters.size(), 13u);
  const CharacterTokenizer tokenizer({U'a', U'n', U'ï', U'v', U'e', U' ', U'–',
                                      U'日', U'本', U'\U0001F600', U'\n'});
  EXPECT_EQ(tokenizer.size(), 14);
  const auto tokens = tokenizer.encode(text);
  EXPECT_EQ(tokens.front(), kFirstOfText + 1);
  EXPECT_EQ(tokenizer.decode(tokens), text);
  EXPECT_EQ(tokenizer.decode(Tokens{kStart, tokens[0], kEnd, kPad}), "n");
}

TEST(DataTokenizer, TellsWhatIsNoToken) {
  const CharacterTokenizer letters({U'a', U'b'});
  EXPECT_NE(thrown<UsageError>([&] {
              letters.encode("abc");
            }).find("'c' is no token of this model"),
            std::string::npos);
  EXPECT_NE(thrown<DataError>([&] {
              letters.encode("ab\xff");
            }).find("byte 2 is not UTF-8"),
            std::string::npos);
  // Longer than it need be, a surrogate, beyond the last character, cut short.
  for (const char* bad : {"\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80",
                          "\xf4\x90\x80\x80", "\xe2\x82"}) {
    EXPECT_THROW(characters_of(bad), DataError);
  }
  const WordTokenizer words({"I", "am"});
  EXPECT_NE(thrown<UsageError>([&] { words.encode("I was"); }).find("'was'"),
            std::string::npos);
  EXPECT_THROW(words.decode(Tokens{5}), UsageError);
  EXPECT_THROW(words.decode(Tokens{-1}), UsageError);
}

TEST(DataTokenizer, WordsComeBackWithOneSpace) {
  const WordTokenizer words({"I", "am", "a"});
  EXPECT_EQ(words.encode(" I  am a\n"), (Tokens{3, 4, 5}));
  EXPECT_EQ(words.decode(Tokens{3, 4, 5, kEnd}), "I am a");
}

TEST(DataBytePairs, JoinsTheMostFrequentPairsFirst) {
  // "aaab" four times: aa, then aaa or ab by what is left.
  const auto pairs = learn_byte_pairs("aaab\naaab\naaab\naaab\n", 2);
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs[0], (BytePair{'a', 'a'}));
  // aa a b: (aa, a) and (a, b) are there four times each; 'a' < 256.
  EXPECT_EQ(pairs[1], (BytePair{'a', 'b'}));
  const BytePairTokenizer tokenizer(pairs);
  EXPECT_EQ(tokenizer.encode("aaab"),
            (Tokens{kFirstOfText + 256, kFirstOfText + 257}));
  EXPECT_EQ(tokenizer.size(), kFirstOfText + 258);
}

TEST(DataBytePairs, StopsWhereNoPairIsThereTwice) {
  EXPECT_EQ(learn_byte_pairs("abcd", 10).size(), 0u);
  EXPECT_EQ(learn_byte_pairs("", 10).size(), 0u);
}

TEST(DataBytePairs, AnyBytesComeBack) {
  const std::string text =
      "the cat and the hat: the theme of the thesis\n  the  end (the ende)\n";
  const BytePairTokenizer tokenizer(learn_byte_pairs(text, 40));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  EXPECT_LT(tokenizer.encode(text).size(), 2 * text.size() / 3);
  for (int64_t row = 0; row < 20; ++row) {
    const auto bytes = random_bytes(200, row);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(bytes)), bytes);
    const BytePairTokenizer own(learn_byte_pairs(bytes + bytes, 30));
    EXPECT_EQ(own.decode(own.encode(bytes)), bytes);
  }
  EXPECT_EQ(tokenizer.encode("").size(), 0u);
}

TEST(DataBytePairs, RefusesPairsOfWhatIsNotThereYet) {
  EXPECT_THROW(BytePairTokenizer({{0, 256}}), UsageError);
  EXPECT_THROW(BytePairTokenizer({{-1, 3}}), UsageError);
  const BytePairTokenizer bytes{{}};
  EXPECT_THROW(bytes.decode(Tokens{kFirstOfText + 256}), UsageError);
}

}  // namespace
}  // namespace propagator::data
