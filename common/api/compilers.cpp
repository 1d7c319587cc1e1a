// What the library was compiled with, as text in its file: bench/provenance.py looks for it there.
namespace {

[[gnu::used]] const char kCompilers[] = "cuflash was compiled with " CUFLASH_COMPILERS;

}  // namespace
