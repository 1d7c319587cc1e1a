// Makes the program write numbers as in Germany: 1.048.576 and 0,5.
#ifndef CUFLASH_TESTS_SUPPORT_GERMAN_NUMBERS_H_
#define CUFLASH_TESTS_SUPPORT_GERMAN_NUMBERS_H_

#include <locale>
#include <string>

namespace cuflash {

// Sets the program's locale for as long as it lives.
class GermanNumbers {
 public:
  GermanNumbers() : before_(std::locale::global({std::locale::classic(), new Spelling})) {}
  ~GermanNumbers() { std::locale::global(before_); }
  GermanNumbers(const GermanNumbers&) = delete;
  GermanNumbers& operator=(const GermanNumbers&) = delete;

 private:
  struct Spelling : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };

  std::locale before_;
};

}  // namespace cuflash

#endif  // CUFLASH_TESTS_SUPPORT_GERMAN_NUMBERS_H_
