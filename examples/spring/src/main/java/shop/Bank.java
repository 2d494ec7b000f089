package shop;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.springframework.stereotype.Component;

/** Stands for a bank: it takes a while, and pays every time it is asked. */
@Component
public class Bank {
    /** The refunds of all hosts, as the bank's account shows them. */
    static final List<String> PAID = new CopyOnWriteArrayList<>();

    void refund(String order) {
        try {
            Thread.sleep(50);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("the bank was not asked", e);
        }
        PAID.add(order);
    }
}
