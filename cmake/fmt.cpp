// fmt, compiled once. Debian has it as headers and as a shared library, which would bring the shared C++ library with it; as headers alone it
// costs every file that formats a line two seconds of compilation. The templates below are those that fmt's headers only declare.
#include <fmt/format-inl.h>

template FMT_API auto fmt::detail::dragonbox::to_decimal(float) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto fmt::detail::dragonbox::to_decimal(double) noexcept -> dragonbox::decimal_fp<double>;
template FMT_API fmt::detail::locale_ref::locale_ref(const std::locale&);
template FMT_API auto fmt::detail::locale_ref::get<std::locale>() const -> std::locale;
template FMT_API auto fmt::detail::thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto fmt::detail::decimal_point_impl<char>(locale_ref) -> char;
template FMT_API void fmt::detail::buffer<char>::append(const char*, const char*);
template FMT_API void fmt::detail::vformat_to(buffer<char>&, string_view, basic_format_args<FMT_BUFFER_CONTEXT(char)>, locale_ref);
