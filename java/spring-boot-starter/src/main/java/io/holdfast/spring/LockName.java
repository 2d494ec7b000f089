package io.holdfast.spring;

import io.holdfast.Holdfast;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Pattern;
import org.springframework.beans.factory.BeanFactory;
import org.springframework.context.expression.BeanFactoryResolver;
import org.springframework.context.expression.MethodBasedEvaluationContext;
import org.springframework.core.DefaultParameterNameDiscoverer;
import org.springframework.core.ParameterNameDiscoverer;
import org.springframework.expression.EvaluationException;
import org.springframework.expression.Expression;
import org.springframework.expression.ParseException;
import org.springframework.expression.ParserContext;
import org.springframework.expression.common.CompositeStringExpression;
import org.springframework.expression.common.LiteralExpression;
import org.springframework.expression.spel.SpelNode;
import org.springframework.expression.spel.ast.FunctionReference;
import org.springframework.expression.spel.ast.VariableReference;
import org.springframework.expression.spel.standard.SpelExpression;
import org.springframework.expression.spel.standard.SpelExpressionParser;

/** The name of a method's lock: text, with expressions over the arguments of a call. */
final class LockName {
    private static final SpelExpressionParser PARSER = new SpelExpressionParser();
    private static final ParameterNameDiscoverer NAMES = new DefaultParameterNameDiscoverer();
    private static final Pattern POSITION = Pattern.compile("[ap](\\d{1,3})");

    private final String template;
    private final Method method;
    private final BeanFactory beans;
    private final List<Expression> parts;

    /**
     * Reads a template.
     *
     * @param method the method that has the annotation, for the names of its parameters
     * @throws IllegalArgumentException if this is not a template, or it asks for a parameter that the method
     *     does not have
     */
    LockName(String template, Method method, BeanFactory beans) {
        this.template = template;
        this.method = method;
        this.beans = beans;
        Expression whole;
        try {
            whole = PARSER.parseExpression(template, ParserContext.TEMPLATE_EXPRESSION);
        } catch (ParseException | IllegalStateException e) {
            throw new IllegalArgumentException(
                    "the name \"" + template + "\" cannot be read: " + e.getMessage(), e);
        }
        this.parts =
                whole instanceof CompositeStringExpression several
                        ? List.of(several.getExpressions())
                        : List.of(whole);
        for (Expression part : parts) {
            if (part instanceof SpelExpression expression) {
                checkVariables(expression.getAST());
            }
        }
    }

    /** Refuses unknown variables: they would be null, and all calls would share one lock. */
    private void checkVariables(SpelNode node) {
        if (node instanceof VariableReference || node instanceof FunctionReference) {
            String name = node.toStringAST().replaceAll("^#|\\(.*", "");
            if (!isKnown(name)) {
                throw new IllegalArgumentException(
                        "the name \"" + template + "\" asks for #" + name + ", " + whatThereIs());
            }
        }
        for (int i = 0; i < node.getChildCount(); i++) {
            checkVariables(node.getChild(i));
        }
    }

    private boolean isKnown(String variable) {
        String[] names = NAMES.getParameterNames(method);
        var position = POSITION.matcher(variable);
        return List.of("root", "this").contains(variable)
                || names != null && Arrays.asList(names).contains(variable)
                || position.matches()
                        && Integer.parseInt(position.group(1)) < method.getParameterCount();
    }

    private String whatThereIs() {
        String[] names = NAMES.getParameterNames(method);
        if (method.getParameterCount() == 0) {
            return "and the method has no parameters";
        }
        return names == null
                ? "but the class was compiled without -parameters: compile it with that option, or"
                        + " write #p0 for the first parameter"
                : "which is none of the parameters " + String.join(", ", names);
    }

    /** Returns the name without arguments, or null if it depends on them. */
    String fixed() {
        return parts.stream().allMatch(LiteralExpression.class::isInstance)
                ? parts.get(0).getExpressionString()
                : null;
    }

    /** Returns the name for a call. */
    String of(Object bean, Object[] arguments) {
        var context = new MethodBasedEvaluationContext(bean, method, arguments, NAMES);
        context.setBeanResolver(new BeanFactoryResolver(beans));
        StringBuilder name = new StringBuilder();
        for (Expression part : parts) {
            if (part instanceof LiteralExpression text) {
                name.append(text.getExpressionString());
            } else {
                name.append(Holdfast.quote(text(part, context)));
            }
        }
        if (name.isEmpty()) {
            throw new IllegalArgumentException("the lock's name \"" + template + "\" is empty");
        }
        return name.toString();
    }

    private String text(Expression part, MethodBasedEvaluationContext context) {
        String wrong = "#{" + part.getExpressionString() + "} in the lock's name \"" + template + "\" ";
        Object value;
        try {
            value = part.getValue(context);
        } catch (EvaluationException e) {
            throw new IllegalArgumentException(wrong + "fails: " + e.getMessage(), e);
        }
        if (value == null) {
            throw new IllegalArgumentException(wrong + "is null");
        }
        if (!hasText(value.getClass())) {
            throw new IllegalArgumentException(
                    wrong
                            + "is a "
                            + value.getClass().getTypeName()
                            + ", which has no toString() of its own, and so another name each time:"
                            + " ask for one of its properties");
        }
        return value.toString();
    }

    private static boolean hasText(Class<?> type) {
        try {
            return type.getMethod("toString").getDeclaringClass() != Object.class;
        } catch (NoSuchMethodException e) {
            throw new AssertionError(e);
        }
    }

    @Override
    public String toString() {
        return template;
    }
}
