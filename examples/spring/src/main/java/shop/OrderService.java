package shop;

import io.holdfast.spring.CurrentHold;
import io.holdfast.spring.Locked;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Transactional;

@Service
public class OrderService {
    private final JdbcTemplate database;
    private final Bank bank;

    OrderService(JdbcTemplate database, Bank bank) {
        this.database = database;
        this.bank = bank;
    }

    /** However often the customer clicks, and on whichever host, the bank is asked once. */
    @Locked(name = "order:#{#id}", timeout = "5s")
    @Transactional
    public String refund(String id) {
        String state =
                database.queryForObject("select state from orders where id = ?", String.class, id);
        if ("refunded".equals(state)) {
            return "it was refunded before";
        }
        bank.refund(id); // a row lock would be held while the bank works
        database.update("update orders set state = 'refunded' where id = ?", id);
        return "refunded";
    }

    /** Sells one item if there is one: reads, decides and writes. */
    @Locked(name = "item:#{#item}", timeout = "30s")
    @Transactional
    public boolean buy(String item, String buyer) {
        Integer left =
                database.queryForObject("select left_over from stock where item = ?", Integer.class, item);
        if (left == null || left == 0) {
            return false;
        }
        database.update("update stock set left_over = ? where item = ?", left - 1, item);
        database.update(
                "insert into sold (item, buyer, fence) values (?, ?, ?)",
                item,
                buyer,
                CurrentHold.get().fence());
        return true;
    }
}
