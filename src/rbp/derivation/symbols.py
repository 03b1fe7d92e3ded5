"""The notation of appendix C as sympy objects, and how to replace its names by what they stand for."""

import sympy as sp

mu = sp.Symbol("mu", real=True)
sigma = sp.Symbol("sigma", positive=True)
x = sp.Symbol("x", positive=True)
t = sp.Symbol("t", real=True)
k = sp.Symbol("k", integer=True, positive=True)

#: the normalizer, and the mass of the density above 1, as names
c = sp.Symbol("c", positive=True)
P = sp.Symbol("P", positive=True)
I1, I2 = sp.symbols("I_1 I_2", real=True)

#: a = −μ/σ, and λ = −μ/σ²: the tail's extra exponent
a = sp.Symbol("a", real=True)
lam = sp.Symbol("lambda", positive=True)
#: Z = c/ψ(1)
Z = sp.Symbol("Z", positive=True)

varphi = sp.Function("varphi", real=True)
Phi = sp.Function("Phi", real=True)
psi = sp.Function("psi", real=True)


def standard_density(at: sp.Expr) -> sp.Expr:
    """φ of equation 12, written out."""
    return sp.exp(-(at**2) / 2) / sp.sqrt(2 * sp.pi)


def standard_cdf(at: sp.Expr) -> sp.Expr:
    """Φ of equation 12, by the error function."""
    return (1 + sp.erf(at / sp.sqrt(2))) / 2


def lognormal_density(at: sp.Expr) -> sp.Expr:
    """ψ of equation 10, written out: the density of equation 9."""
    return sp.exp(-((sp.log(at) - mu) ** 2) / (2 * sigma**2)) / (sp.sqrt(2 * sp.pi) * sigma * at)


def unfold(expression: sp.Expr) -> sp.Expr:
    """The expression in μ, σ and elementary functions alone, but for c: φ, Φ, ψ, a, P, I₁ and I₂ are replaced.

    I₁ and I₂ become their integrals, not the right sides of equations 14 and 15.
    """
    for name, value in ((I1, truncated_moment(1)), (I2, truncated_moment(2)), (P, truncated_moment(0))):
        if expression.has(name):
            expression = expression.subs(name, value)
    named = {varphi: standard_density, Phi: standard_cdf, psi: lognormal_density}
    for function, meaning in named.items():
        expression = expression.replace(function, meaning)
    return expression.subs(a, -mu / sigma).doit()


_MOMENTS: dict[int, sp.Expr] = {}


def truncated_moment(power: int) -> sp.Expr:
    """∫₁^∞ ψ(x) ln^power(x) dx by integration: x = e^t, then sympy's integrator (equations 13 to 15)."""
    if power not in _MOMENTS:
        integrand = sp.simplify((lognormal_density(x) * sp.log(x) ** power).subs(x, sp.exp(t)) * sp.exp(t))
        # the integrand is a polynomial times a normal density: the integral converges for every μ and σ > 0
        _MOMENTS[power] = sp.simplify(sp.integrate(integrand, (t, 0, sp.oo), conds="none"))
    return _MOMENTS[power]


def is_zero(expression: sp.Expr) -> bool:
    """Whether an expression in the names above is 0 for all μ, σ and c: proved by simplification, never by numbers."""
    plain = sp.expand_log(unfold(expression), force=True)
    return bool(sp.simplify(sp.expand(plain.rewrite(sp.erf))) == 0)
